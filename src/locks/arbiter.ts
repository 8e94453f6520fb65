import { backoffMs, type ClosedError, type HoldfastError, type Key, whenAborted } from '../base/index.js'
import {
  type Anchor,
  DatabaseUnreachableError,
  type NameRegistry,
  type Session,
  type Statement,
  sqlstate,
  sqlstateOf,
  type WaitTracker,
} from '../postgres/index.js'
import { Hold, joinFreelyMs } from './hold.js'
import { LockBatcher, type LockBatchStatements, type LockMode } from './lock-batcher.js'
import { LockBudget } from './lock-budget.js'
import { type WaitConnection, WaitPool, type WaitStatements } from './wait-pool.js'

export interface ArbiterOptions {
  readonly anchor: Anchor
  readonly names: NameRegistry
  readonly statements: LockBatchStatements & WaitStatements & { count_locks: Statement }
  readonly expiryMs: number
  readonly waitConnections: number
  readonly waits: WaitTracker
}

export interface AcquireOptions {
  readonly mode: LockMode
  /** Maximum time to wait, in milliseconds. 0 means no waiting. */
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
  /**
   * Keys that the enclosing handler holds in shared mode. A nested reader must not queue behind a writer, because the
   * writer waits for the handler.
   */
  readonly reading?: readonly string[]
  /** Keys that the enclosing handlers hold, for deadlock detection. */
  readonly holding?: readonly string[]
}

export interface PendingRequest {
  readonly kind: 'lock'
  readonly key: Key
  readonly request: AcquireOptions
  readonly requestedAt: number
  readonly settle: (outcome: Hold | null) => void
  readonly fail: (error: unknown) => void
}

/**
 * The name of a shorter hold is registered only if the registration happens during the hold. People could hardly
 * see such a hold, and the history omits it.
 */
const briefHoldMs = 50

class NameState {
  readonly queue: PendingRequest[] = []
  hold: Hold | undefined
  connection: WaitConnection | undefined
  /** Whether a request is waiting for the lock on a wait connection, or is waiting until a wait connection becomes free. */
  isWaiting = false
  /** Lock mode of the server-side wait in progress. */
  waitingMode: LockMode | undefined
  /** Timer that is set while readers are held back for a writer in another process. When the timer fires, the readers retry. */
  readersRetryTimer: NodeJS.Timeout | undefined
  /** Whether `#processQueue` is running for this name. */
  isProcessing = false
  onIdle: (() => void) | undefined

  constructor(readonly key: Key) {}
}

/**
 * Owns each name's FIFO queue inside one process, and sends only the head of a queue to the server. PostgreSQL arbitrates between sessions,
 * but would grant a lock again to a session that already holds it. The README describes the states.
 *
 * - A request that times out or is aborted leaves the queue immediately. A late grant goes to the queue's new head if
 *   that request has the same mode. Otherwise, the lock is released.
 * - Readers join their process's shared hold. From one second after the grant, a joining reader first checks whether a
 *   writer in another process is waiting. If so, readers queue until the hold is released, so that writers do not
 *   starve.
 * - If the anchor connection is lost, holders are notified, waiting requests continue after the reconnection, and requests that do not wait
 *   throw an error.
 */
export class Arbiter {
  readonly #states = new Map<string, NameState>()
  readonly #budget: LockBudget
  readonly #waitPool: WaitPool
  readonly #batchers = new WeakMap<Session, LockBatcher>()
  readonly #closing = new AbortController()

  constructor(readonly options: ArbiterOptions) {
    this.#budget = new LockBudget(options.statements.count_locks)
    const newBatcher = (session: Session) => this.#batcherOf(session)
    this.#waitPool = new WaitPool(
      options.anchor,
      options.statements,
      options.expiryMs,
      options.waitConnections,
      newBatcher,
    )
    options.anchor.onLoss((session, reason) => this.#onSessionLost(session, reason))
  }

  /** Returns null if the name is still busy after `waitMs`. */
  acquire(key: Key, options: AcquireOptions): Promise<Hold | null> {
    return new Promise((resolve, reject) => {
      if (this.#closing.signal.aborted) throw this.#closing.signal.reason
      this.options.names.useBriefly(key)
      const outer = options.reading?.includes(key.key) ? this.holdOf(key.key) : undefined
      if (outer?.mode === 'shared') {
        outer.users++
        return resolve(outer)
      }
      // These two results come in a later turn of the event loop. Otherwise, a caller that tries again in a loop would block the
      // event loop, so that the connection could not be restored and the holder could not release the lock.
      if (options.waitMs === 0 && !this.options.anchor.session) {
        setImmediate(reject, reconnectingError())
        return
      }
      const state = this.#stateOf(key)
      if (options.waitMs === 0 && this.#isBusyHere(state, options)) {
        setImmediate(resolve, null)
        return
      }
      this.#enqueue(state, options, resolve, reject)
      void this.#processQueue(state)
    })
  }

  async release(hold: Hold): Promise<void> {
    if (--hold.users > 0) return
    const state = this.#states.get(hold.key.key)
    if (state?.hold !== hold) return
    state.hold = undefined
    if (state.queue.length === 0 && performance.now() - hold.grantedAt < briefHoldMs)
      this.options.names.forget(hold.key)
    // A wait connection serves only one name, so its release cannot share a batch with other names.
    const hasOwnConnection = state.connection?.batcher === hold.batcher
    const released = hasOwnConnection
      ? hold.batcher.releaseNow(hold.key, hold.mode)
      : hold.batcher.release(hold.key, hold.mode)
    void this.#processQueue(state)
    await released
  }

  *holds(): Iterable<Hold> {
    for (const state of this.#states.values()) if (state.hold) yield state.hold
  }

  *waitingRequests(): Iterable<PendingRequest> {
    for (const state of this.#states.values()) yield* state.queue
  }

  holdOf(key: string): Hold | undefined {
    return this.#states.get(key)?.hold
  }

  async close(reason: ClosedError): Promise<void> {
    this.#closing.abort(reason)
    for (const pending of [...this.waitingRequests()]) pending.fail(reason)
    const holds = [...this.holds()]
    for (const hold of holds) {
      hold.lose(reason)
      hold.users = 1
    }
    await Promise.all(holds.map((hold) => this.release(hold)))
    const closing = this.#waitPool.close()
    const processing = [...this.#states.values()].filter((state) => state.isProcessing)
    await Promise.all(processing.map((entry) => new Promise<void>((resolve) => (entry.onIdle = resolve))))
    await closing
  }

  #stateOf(key: Key): NameState {
    let state = this.#states.get(key.key)
    if (state === undefined) {
      state = new NameState(key)
      this.#states.set(key.key, state)
    }
    return state
  }

  /**
   * Returns true if a hold or another request in this process conflicts with the request, or if another process holds
   * the name.
   */
  #isBusyHere(state: NameState, options: AcquireOptions): boolean {
    // If the queue is empty, the server-side wait has been abandoned and will end soon, so it does not show that the
    // name is busy.
    if (state.isWaiting && state.queue.length > 0) return true
    if (options.mode === 'exclusive') return state.hold !== undefined || state.queue.length > 0
    return state.hold?.mode === 'exclusive' || state.queue.some((pending) => pending.request.mode === 'exclusive')
  }

  #enqueue(
    state: NameState,
    options: AcquireOptions,
    resolve: (hold: Hold | null) => void,
    reject: (error: unknown) => void,
  ): void {
    let timer: NodeJS.Timeout | undefined
    let forgetSignal = () => {}
    const dequeue = () => {
      clearTimeout(timer)
      forgetSignal()
      this.options.waits.waitEnded(pending)
      const position = state.queue.indexOf(pending)
      if (position >= 0) state.queue.splice(position, 1)
      // Cancel the server-side wait, because the queue is empty or its new head needs a different mode.
      if (state.waitingMode && state.queue[0]?.request.mode !== state.waitingMode) state.connection?.cancel()
    }
    const pending: PendingRequest = {
      kind: 'lock',
      key: state.key,
      request: options,
      requestedAt: performance.now(),
      settle: (outcome) => {
        dequeue()
        if (outcome) outcome.users++
        resolve(outcome)
      },
      fail: (error) => {
        dequeue()
        reject(error)
      },
    }
    state.queue.push(pending)
    if (state.isWaiting) this.#reportWaits(state)
    if (options.waitMs > 0 && Number.isFinite(options.waitMs))
      timer = setTimeout(() => {
        if (this.options.anchor.session) pending.settle(null)
        else pending.fail(reconnectingError())
      }, options.waitMs)
    if (options.signal) forgetSignal = whenAborted(options.signal, pending.fail)
  }

  /**
   * Processes one name's queue until the queue is empty or must wait for a release. Only one call per name runs at a
   * time.
   */
  async #processQueue(state: NameState): Promise<void> {
    if (state.isProcessing) return
    state.isProcessing = true
    while (state.queue.length > 0) {
      const head = state.queue[0]!
      const { hold } = state
      try {
        if (hold === undefined) await this.#requestFromServer(state, head)
        // Releasing the hold will resume the queue, unless the hold was already released during #joinHold.
        else if (!(await this.#joinHold(state, hold, head)) && state.hold === hold) {
          this.#reportWaits(state)
          break
        }
      } catch (error) {
        await this.#onFailure(state, head, error)
      }
    }
    // No other code runs between the last check on the queue and this line, so no request is missed.
    state.isProcessing = false
    if (state.hold === undefined) this.#forgetName(state)
    state.onIdle?.()
  }

  #forgetName(state: NameState): void {
    if (state.connection) void this.#waitPool.release(state.connection)
    state.connection = undefined
    clearTimeout(state.readersRetryTimer)
    this.#states.delete(state.key.key)
  }

  /**
   * Lets the head of the queue join one of this process's holds. Returns false if the head must wait until that hold is
   * released.
   */
  async #joinHold(state: NameState, hold: Hold, head: PendingRequest): Promise<boolean> {
    if (head.request.mode !== 'shared' || hold.mode !== 'shared') return false
    if (performance.now() > hold.joinableUntil) {
      if (state.readersRetryTimer || !(await this.#admitsReaders(state.key))) {
        this.#refuseNonWaiters(state)
        this.#retryReadersLater(state)
        return false
      }
      hold.joinableUntil = performance.now() + joinFreelyMs
    }
    // Compares again, because the queue and the hold may have changed during the check for waiting writers.
    if (state.hold === hold && state.queue[0] === head) head.settle(hold)
    return true
  }

  #retryReadersLater(state: NameState): void {
    state.readersRetryTimer ??= setTimeout(() => {
      state.readersRetryTimer = undefined
      void this.#processQueue(state)
    }, joinFreelyMs / 4)
  }

  async #admitsReaders(key: Key): Promise<boolean> {
    const connection = await this.#waitPool.acquire(0)
    if (!connection) return true
    try {
      return await connection.admitsReaders(key)
    } finally {
      void this.#waitPool.release(connection)
    }
  }

  async #requestFromServer(state: NameState, head: PendingRequest): Promise<void> {
    // If the name has a wait connection, the name was busy recently. An attempt would probably fail, so the request waits immediately after
    // the release. This saves one round trip for each handover between processes.
    if (state.connection && state.queue.every(({ request }) => request.waitMs > 0)) return this.#waitOneSlice(state)
    const batcher = state.connection?.batcher ?? this.#batcherOf(await this.#presentSession(state, head))
    const fence = await batcher.try(state.key, head.request.mode)
    if (fence !== null) return this.#onGranted(state, head.request.mode, fence, batcher)
    this.#refuseNonWaiters(state)
    if (state.queue.length > 0) await this.#waitOneSlice(state)
  }

  async #presentSession(state: NameState, head: PendingRequest): Promise<Session> {
    const { anchor } = this.options
    const session = anchor.session
    if (session) return session
    if (head.request.waitMs === 0) throw reconnectingError()
    // Requests that do not wait may be queued behind the head, and nothing else would fail them during the outage.
    for (const pending of [...state.queue]) if (pending.request.waitMs === 0) pending.fail(reconnectingError())
    return anchor.whenPresent(this.#closing.signal)
  }

  async #waitOneSlice(state: NameState): Promise<void> {
    state.isWaiting = true
    this.#reportWaits(state)
    await this.#waitOnConnection(state).finally(() => {
      state.isWaiting = false
    })
  }

  /**
   * Waits on a wait connection for the lock, for one slice of time, or pauses briefly if all wait connections are in
   * use.
   */
  async #waitOnConnection(state: NameState): Promise<void> {
    state.connection ??= await this.#waitPool.acquire(backoffMs(3, 25, 250))
    const { connection, queue } = state
    const head = queue[0]
    if (!connection || !head) return
    const { mode } = head.request
    // The queue may be too long for the arguments of Math.max.
    const until = queue.reduce((last, { request, requestedAt }) => Math.max(last, requestedAt + request.waitMs), 0)
    const maxWaitMs = until - performance.now()
    state.waitingMode = mode
    const fence = await connection.wait(state.key, mode, maxWaitMs).finally(() => {
      state.waitingMode = undefined
    })
    if (fence !== undefined) await this.#onGranted(state, mode, fence, connection.batcher)
  }

  /** Assigns the grant to the current head of the queue if the mode matches. Otherwise, releases the lock. */
  async #onGranted(state: NameState, mode: LockMode, fence: number, batcher: LockBatcher): Promise<void> {
    if (!batcher.session.trusted) return
    const head = state.queue[0]
    if (head === undefined || head.request.mode !== mode) {
      await batcher.release(state.key, mode)
      return
    }
    state.hold = new Hold(state.key, mode, fence, batcher)
    head.settle(state.hold)
  }

  /** Reports the waits that have not been reported yet. These are at the end of the queue, which may contain thousands of waits. */
  #reportWaits({ queue }: NameState): void {
    const { waits } = this.options
    for (let at = queue.length - 1; at >= 0; at--) {
      const pending = queue[at]!
      if (pending.request.waitMs > 0 && !waits.waitStarted(pending)) return
    }
  }

  #refuseNonWaiters(state: NameState): void {
    for (const pending of [...state.queue]) if (pending.request.waitMs === 0) pending.settle(null)
  }

  async #onFailure(state: NameState, head: PendingRequest, error: unknown): Promise<void> {
    if (state.connection && !state.connection.batcher.session.trusted) state.connection = undefined
    // An operator has cancelled the statement, so the request is retried.
    if (sqlstateOf(error) === sqlstate.queryCanceled) return
    const keepsWaiting = head.request.waitMs > 0 && error instanceof DatabaseUnreachableError
    if (!keepsWaiting) return head.fail(error)
    // The database is unreachable. The request continues to wait, and pauses so that it does not overload a server that is starting.
    await new Promise((resolve) => setTimeout(resolve, backoffMs(2, 25, 250)))
  }

  #batcherOf(session: Session): LockBatcher {
    let batcher = this.#batchers.get(session)
    if (batcher === undefined) {
      batcher = new LockBatcher(session, this.options.statements, this.#budget)
      this.#batchers.set(session, batcher)
      if (session !== this.options.anchor.session) session.onLoss((reason) => this.#onSessionLost(session, reason))
    }
    return batcher
  }

  #onSessionLost(session: Session, reason: HoldfastError): void {
    for (const state of [...this.#states.values()]) {
      if (state.connection?.batcher.session === session) state.connection = undefined
      if (state.hold?.batcher.session !== session) continue
      const { hold } = state
      state.hold = undefined
      hold.lose(reason)
      void this.#processQueue(state)
    }
  }
}

function reconnectingError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('The anchor connection was lost and is reconnecting')
}
