import {
  backoffMs,
  type Events,
  isRetryable,
  keysHeldByFlow,
  orAborted,
  pause,
  randomToken,
  whenAborted,
} from '../base/index.js'
import { type Database, DatabaseUnreachableError, type Epoch, type Presence } from '../postgres/index.js'
import { Permit } from './permit.js'
import type { PermitBatcher, PermitDecision, PermitRequest, Refusal } from './permit-batcher.js'
import type { Waitlist } from './waitlist.js'

export interface AcquireOptions extends Pick<PermitRequest, 'key' | 'name' | 'max' | 'weight'> {
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
}

export interface PermitAcquirerOptions {
  readonly database: Database
  readonly presence: Presence
  readonly events: Events
  readonly batcher: PermitBatcher
  readonly waitlist: Waitlist
  readonly closing: AbortSignal
  readonly newPermit: (request: PermitRequest, fence: number) => Permit
  /** Makes `close` wait for the promise. */
  readonly track: <T>(promise: Promise<T>) => Promise<T>
}

/** Maximum time to wait until this instance is present, for a request that does not set `wait`. */
const maxPresenceWaitMs = 2_000
/**
 * Maximum time, after `wait` has passed, for the response to a statement in progress or to the statement that leaves
 * the queue.
 */
const maxLastResponseMs = 2_000

/** Reason with which a wait is aborted when it times out. */
const waitOver = Symbol('wait over')

/** Signals that end the wait, and later end the wait for the response to a statement in progress. */
interface GiveUpSignals {
  readonly wait: AbortSignal
  readonly response: AbortSignal
}

/** Returns the signals of a request. Call `forget` when the request has ended. */
function giveUpSignals(
  waitMs: number,
  closing: AbortSignal,
  signal: AbortSignal | undefined,
): GiveUpSignals & { forget(): void } {
  // Most requests neither wait nor have a signal. Creating controllers for them would take longer than the rest of the call in this process.
  if (waitMs === 0 && signal === undefined) return { wait: closing, response: closing, forget() {} }
  const [wait, response] = [new AbortController(), new AbortController()]
  const forgets = [closing, signal].map((one) =>
    whenAborted(one, (reason) => {
      wait.abort(reason)
      response.abort(reason)
    }),
  )
  const timers =
    waitMs > 0
      ? [
          setTimeout(() => wait.abort(waitOver), waitMs),
          setTimeout(() => response.abort(waitOver), waitMs + maxLastResponseMs),
        ]
      : []
  return {
    wait: wait.signal,
    response: response.signal,
    forget() {
      for (const timer of timers) clearTimeout(timer)
      for (const forget of forgets) forget()
    },
  }
}

/** Acquires permits. Tries once, or waits in the queue. If an epoch ends, retries in the next epoch. */
export class PermitAcquirer {
  constructor(readonly options: PermitAcquirerOptions) {}

  async acquire(options: AcquireOptions): Promise<Permit | Refusal> {
    const { events, closing, track } = this.options
    const { name, weight, waitMs, signal } = options
    const requestedAt = performance.now()
    const giveUp = giveUpSignals(waitMs, closing, signal)
    try {
      const outcome = await track(this.#acquireWithin(options, giveUp))
      const waitedMs = performance.now() - requestedAt
      if (outcome instanceof Permit)
        events.emitter('limit.acquired')?.({ name, weight, fence: outcome.fence, waitedMs })
      else events.emitter('limit.refused')?.({ name, weight, inUse: outcome.inUse, waitedMs })
      return outcome
    } finally {
      giveUp.forget()
    }
  }

  async #acquireWithin(
    { key, name, max, weight, waitMs }: AcquireOptions,
    giveUp: GiveUpSignals,
  ): Promise<Permit | Refusal> {
    const requestedAt = performance.now()
    const waits = waitMs > 0
    let failure: unknown
    for (let attempt = 0; ; attempt++) {
      try {
        giveUp.wait.throwIfAborted()
        const epoch = this.options.presence.epoch ?? (await this.#whenPresent(waits, giveUp.wait))
        const token = randomToken()
        const request = { key, name, max, weight, token, epoch }
        const decision = waits
          ? await this.#waitInQueue(request, giveUp)
          : await this.#requestOnce('try', request, giveUp)
        if (decision instanceof Permit) return decision
        if (decision.verdict === 'full' || decision.verdict === 'left') {
          return { ...decision, max, weight, waitedMs: waits ? performance.now() - requestedAt : 0 }
        }
        failure = epoch.loss ?? (decision.verdict === 'in-grace' ? inGraceError() : notPresentError())
      } catch (error) {
        if (error === waitOver) throw failure ?? noResponseError()
        // The caller's abort reason may be a retryable error, but ends the wait.
        if (giveUp.wait.aborted && error === giveUp.wait.reason) throw error
        if (!isRetryable(error)) throw error
        failure = error
      }
      // After a retryable error, such as an unreachable database or a cancelled statement, a waiting call keeps waiting.
      if (!waits || giveUp.wait.reason === waitOver) throw failure
      await pause(backoffMs(attempt, 20, 500), giveUp.wait)
    }
  }

  /** Sends one request. If the permit is granted after the caller gave up, the permit is released. */
  async #requestOnce(
    kind: 'try' | 'wait' | 'leave',
    request: PermitRequest,
    giveUp: GiveUpSignals,
  ): Promise<PermitDecision | Permit> {
    try {
      const decision = await orAborted(giveUp.response, this.options.batcher.add(kind, request))
      return decision.verdict === 'granted'
        ? (this.#onGranted(request, decision.fence) ?? { ...decision, verdict: 'not-present' })
        : decision
    } catch (error) {
      this.#withdraw(request)
      throw error
    }
  }

  /** Acquires the permit immediately, or waits in the queue until the permit is granted. */
  async #waitInQueue(request: PermitRequest, giveUp: GiveUpSignals): Promise<PermitDecision | Permit> {
    const { waitlist, database } = this.options
    const wait = waitlist.add(request, keysHeldByFlow(database.address))
    try {
      const decision = await this.#requestOnce('wait', request, giveUp)
      if (decision instanceof Permit || decision.verdict !== 'waiting') return decision
      wait.isQueued = true
      const outcome = await orAborted(giveUp.wait, wait.outcome).catch((error) => {
        // If the permit was granted at the same time, the `leave` request returns the permit.
        if (error === waitOver) return this.#requestOnce('leave', request, giveUp)
        this.#withdraw(request)
        throw error
      })
      if (typeof outcome === 'object') return outcome
      if (outcome === 'gone') return { ...decision, verdict: 'gone' }
      return this.#onGranted(request, outcome) ?? { ...decision, verdict: 'not-present' }
    } finally {
      wait.leave()
    }
  }

  /** Returns the permit's handle, or undefined if the request's epoch has ended. */
  #onGranted(request: PermitRequest, fence: number): Permit | undefined {
    if (request.epoch.trusted && !this.options.closing.aborted) return this.options.newPermit(request, fence)
    this.#withdraw(request)
    return undefined
  }

  /** Cancels a request whose caller gave up, even if the request has not reached the server yet. */
  #withdraw(request: PermitRequest): void {
    const { batcher, track } = this.options
    track(batcher.sendReliably('cancel', request)).catch(() => {})
  }

  /** Waits for the next epoch: at most 2 s if the request does not set `wait`. */
  async #whenPresent(waits: boolean, giveUp: AbortSignal): Promise<Epoch> {
    const { presence } = this.options
    if (waits) return presence.whenPresent(giveUp)
    const presenceWait = new AbortController()
    const forget = whenAborted(giveUp, (reason) => presenceWait.abort(reason))
    const timer = setTimeout(() => presenceWait.abort(notPresentError()), maxPresenceWaitMs)
    try {
      return await presence.whenPresent(presenceWait.signal)
    } finally {
      clearTimeout(timer)
      forget()
    }
  }
}

function noResponseError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('The database did not respond within the time given by `wait`')
}

function inGraceError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError(
    'The server has restarted, and a process may still rely on a permit from before the restart',
  )
}

function notPresentError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError(
    'This instance is currently not present in the database, so it cannot hold a permit',
  )
}
