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

/**
 * Decides inside one process who may have a name, and speaks for all of them to the server.
 *
 * PostgreSQL decides between sessions, but says yes to a session that asks for what it holds already. So within a
 * process the arbiter is the authority: requests for a name stand in one queue, first come first served, and only
 * the first of them is brought before the server.
 *
 *     asked ──► queued ──► tried on the anchor ──► granted
 *                 ▲               │ busy
 *                 │               ├─► null, for those who would not wait
 *                 │               ▼
 *                 └──────── waits on a parked place, slice by slice ──► granted there
 *
 * - A request that times out or is aborted leaves the queue at once. What the server grants after that goes to the
 *   next in the queue that fits, and else is given back.
 * - When a name is released and somebody of this process is next, release and try go out as one statement; on a parked
 *   place, release and wait go out one behind the other. Waiters of other processes stand in the server's queue and get
 *   it first, so no process keeps a name to itself.
 * - Readers join a shared hold of their process. After a second, joining asks the server whether a writer waits
 *   elsewhere; if so, readers queue up until the hold has drained, so that writers are not starved.
 * - When the anchor is lost, those who hold are told, those who wait go on waiting for the next life, and those who
 *   would not wait get the error.
 */
export interface ArbiterOptions {
  readonly anchor: Anchor
  readonly names: NameRegistry
  readonly statements: LockBatchStatements & WaitStatements & { count_locks: Statement }
  readonly expiryMs: number
  readonly waitConnections: number
  /** Who is told who waits. */
  readonly waits: WaitTracker
}

export interface AcquireOptions {
  readonly mode: LockMode
  /** 0: only if it is free now. */
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
  /** The keys that the same flow of control reads: a reader inside it must not stand behind a writer that waits for it. */
  readonly reading?: readonly string[]
  /** The keys that the same flow of control holds, for finding deadlocks. */
  readonly holding?: readonly string[]
}

/** One acquire that has not been decided yet. */
export interface PendingRequest {
  readonly kind: 'lock'
  readonly key: Key
  readonly request: AcquireOptions
  readonly requestedAt: number
  readonly settle: (outcome: Hold | null) => void
  readonly fail: (error: unknown) => void
}

interface NameState {
  readonly key: Key
  readonly queue: PendingRequest[]
  hold: Hold | undefined
  connection: WaitConnection | undefined
  /** Whether somebody waits for others to let go, on a place or until one is free. */
  isWaiting: boolean
  /** In which mode a place stands in the queue of the server now. */
  waitingMode: LockMode | undefined
  /** Set while readers stand back for a writer elsewhere: when it goes off, they ask again. */
  readersRetryTimer: NodeJS.Timeout | undefined
  /** Whether `#work` is going on for this name. */
  isProcessing: boolean
  onIdle: (() => void) | undefined
}

export class Arbiter {
  readonly #options: ArbiterOptions
  readonly #states = new Map<string, NameState>()
  readonly #budget: LockBudget
  readonly #waitPool: WaitPool
  readonly #batchers = new WeakMap<Session, LockBatcher>()
  readonly #closing = new AbortController()

  constructor(options: ArbiterOptions) {
    this.#options = options
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

  /** The hold, or null when the name was busy for as long as the request would wait. */
  acquire(key: Key, options: AcquireOptions): Promise<Hold | null> {
    return new Promise((resolve, reject) => {
      if (this.#closing.signal.aborted) throw this.#closing.signal.reason
      this.#options.names.check(key)
      const outer = options.reading?.includes(key.key) ? this.holdOf(key.key) : undefined
      if (outer?.mode === 'shared') {
        outer.users++
        return resolve(outer)
      }
      if (options.waitMs === 0 && !this.#options.anchor.session) throw reconnectingError()
      const state = this.#stateOf(key)
      if (options.waitMs === 0 && this.#isBusyHere(state, options)) return resolve(null)
      this.#enqueue(state, options, resolve, reject)
      void this.#processQueue(state)
    })
  }

  async release(hold: Hold): Promise<void> {
    if (--hold.users > 0) return
    const state = this.#states.get(hold.key.key)
    if (state?.hold !== hold) return
    state.hold = undefined
    // A place serves one name, so there is nobody to send the release together with.
    const hasOwnConnection = state.connection?.batcher === hold.batcher
    const released = hasOwnConnection
      ? hold.batcher.releaseNow(hold.key, hold.mode)
      : hold.batcher.release(hold.key, hold.mode)
    void this.#processQueue(state)
    await released
  }

  /** What is held now, for notes and for people. */
  *holds(): Iterable<Hold> {
    for (const state of this.#states.values()) if (state.hold) yield state.hold
  }

  /** Who waits now. */
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
      state = {
        key,
        queue: [],
        hold: undefined,
        connection: undefined,
        isWaiting: false,
        waitingMode: undefined,
        readersRetryTimer: undefined,
        isProcessing: false,
        onIdle: undefined,
      }
      this.#states.set(key.key, state)
    }
    return state
  }

  /** Whether somebody of this process has the name, or is before us, in a way that excludes us; or others have it. */
  #isBusyHere(state: NameState, options: AcquireOptions): boolean {
    // With an empty queue it is a wait that has been given up and is about to end: nobody here needs to have the name.
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
      this.#options.waits.waitEnded(pending)
      const position = state.queue.indexOf(pending)
      if (position >= 0) state.queue.splice(position, 1)
      // Nobody needs what is waited for, or whoever is first now needs it in another mode.
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
      timer = setTimeout(() => pending.settle(null), options.waitMs)
    if (options.signal) forgetSignal = whenAborted(options.signal, pending.fail)
  }

  /** Brings the queue of one name forward, as far as it goes now. Runs once at a time for each name. */
  async #processQueue(state: NameState): Promise<void> {
    if (state.isProcessing) return
    state.isProcessing = true
    while (state.queue.length > 0) {
      const head = state.queue[0]!
      const { hold } = state
      try {
        if (hold === undefined) await this.#requestFromServer(state, head)
        // Its release will go on from here; unless it was released while we looked.
        else if (!(await this.#joinHold(state, hold, head)) && state.hold === hold) {
          this.#reportWaits(state)
          break
        }
      } catch (error) {
        await this.#onFailure(state, head, error)
      }
    }
    // From the last look at the queue to here nothing else can run, so nobody who asks is overlooked.
    state.isProcessing = false
    if (state.hold === undefined) this.#forgetName(state)
    state.onIdle?.()
  }

  /** Nothing is held and nobody waits. */
  #forgetName(state: NameState): void {
    if (state.connection) void this.#waitPool.release(state.connection)
    state.connection = undefined
    clearTimeout(state.readersRetryTimer)
    this.#states.delete(state.key.key)
  }

  /** Lets the head use what this process holds already; false when it must wait for its release. */
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
    // Both may have gone while we asked.
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

  /** Asks the server on behalf of the head. */
  async #requestFromServer(state: NameState, head: PendingRequest): Promise<void> {
    // On a place the name was busy a moment ago. Waiting straight away, right behind the release, spares a try that
    // would most likely fail, and with it a round trip for each hand-off between processes.
    if (state.connection && state.queue.every(({ request }) => request.waitMs > 0)) return this.#waitOneSlice(state)
    const batcher = state.connection?.batcher ?? this.#batcherOf(await this.#presentSession(head))
    const fence = await batcher.try(state.key, head.request.mode)
    if (fence !== null) return this.#onGranted(state, head.request.mode, fence, batcher)
    this.#refuseNonWaiters(state)
    if (state.queue.length > 0) await this.#waitOneSlice(state)
  }

  async #presentSession(head: PendingRequest): Promise<Session> {
    const { anchor } = this.#options
    const session = anchor.session
    if (session) return session
    if (head.request.waitMs === 0) throw reconnectingError()
    return anchor.whenPresent(this.#closing.signal)
  }

  async #waitOneSlice(state: NameState): Promise<void> {
    state.isWaiting = true
    this.#reportWaits(state)
    await this.#waitOnConnection(state).finally(() => {
      state.isWaiting = false
    })
  }

  /** Waits one slice on a parked place, or a moment where all places are taken. */
  async #waitOnConnection(state: NameState): Promise<void> {
    state.connection ??= await this.#waitPool.acquire(backoffMs(3, 25, 250))
    const { connection, queue } = state
    const head = queue[0]
    if (!connection || !head) return
    const { mode } = head.request
    const maxWaitMs = Math.max(
      ...queue.map(({ request, requestedAt }) => requestedAt + request.waitMs - performance.now()),
    )
    state.waitingMode = mode
    const fence = await connection.wait(state.key, mode, maxWaitMs).finally(() => {
      state.waitingMode = undefined
    })
    if (fence !== undefined) await this.#onGranted(state, mode, fence, connection.batcher)
  }

  /** The server has granted the name: to the head of the queue as it is now, if that still fits. */
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

  #reportWaits({ queue }: NameState): void {
    for (const pending of queue) if (pending.request.waitMs > 0) this.#options.waits.waitStarted(pending)
  }

  /** The name is taken elsewhere: those who would not wait are told so. */
  #refuseNonWaiters(state: NameState): void {
    for (const pending of [...state.queue]) if (pending.request.waitMs === 0) pending.settle(null)
  }

  async #onFailure(state: NameState, head: PendingRequest, error: unknown): Promise<void> {
    if (state.connection && !state.connection.batcher.session.trusted) state.connection = undefined
    // The end of a wait that came late, and struck what came after it: asked again.
    if (sqlstateOf(error) === sqlstate.queryCanceled) return
    const keepsWaiting = head.request.waitMs > 0 && error instanceof DatabaseUnreachableError
    if (!keepsWaiting) return head.fail(error)
    // The database went away: whoever waits goes on waiting, without pressing a server that is starting.
    await new Promise((resolve) => setTimeout(resolve, backoffMs(2, 25, 250)))
  }

  #batcherOf(session: Session): LockBatcher {
    let batcher = this.#batchers.get(session)
    if (batcher === undefined) {
      batcher = new LockBatcher(session, this.#options.statements, this.#options.names, this.#budget)
      this.#batchers.set(session, batcher)
      if (session !== this.#options.anchor.session) session.onLoss((reason) => this.#onSessionLost(session, reason))
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
  return new DatabaseUnreachableError('The anchor was lost and is reconnecting')
}
