import { randomBytes } from 'node:crypto'
import { backoffMs, type Events, keysHeldByFlow, orAborted, pause, whenAborted } from '../base/index.js'
import { type Database, DatabaseUnreachableError, type Epoch, type Presence } from '../postgres/index.js'
import { Permit } from './permit.js'
import type { PermitBatcher, PermitDecision, PermitRequest } from './permit-batcher.js'
import type { Waitlist } from './waitlist.js'

/** What a caller asks for. */
export interface AcquireOptions extends Pick<PermitRequest, 'key' | 'name' | 'max' | 'weight'> {
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
}

/** Why there is no permit. */
export type Refusal = PermitDecision & { readonly max: number; readonly weight: number; readonly waitedMs: number }

export interface PermitAcquirerOptions {
  readonly database: Database
  readonly presence: Presence
  readonly events: Events
  readonly batcher: PermitBatcher
  readonly waitlist: Waitlist
  readonly closing: AbortSignal
  /** Makes the handle of what was granted. */
  readonly newPermit: (request: PermitRequest, fence: number) => Permit
  /** Closing waits for it. */
  readonly track: <T>(promise: Promise<T>) => Promise<T>
}

/** Whoever would not wait for a permit waits so long for this instance to be present. */
const maxPresenceWaitMs = 2_000
/** And whoever has waited in vain, for the last word of the database: for an answer that is under way, or to leave the queue. */
const maxLastAnswerMs = 2_000

/** The reason of a wait that is over. */
const waitOver = Symbol('wait over')

/** When a caller gives up: its wait, and then the answer to a statement that is under way. */
interface GiveUpSignals {
  readonly wait: AbortSignal
  readonly answer: AbortSignal
}

/**
 * Takes permits: asks once, or waits in the queue; under one life of the instance after the other, until there is an answer
 * that counts. Whatever may have been granted to a caller who has given up is given back.
 */
export class PermitAcquirer {
  readonly #options: PermitAcquirerOptions

  constructor(options: PermitAcquirerOptions) {
    this.#options = options
  }

  async acquire(options: AcquireOptions): Promise<Permit | Refusal> {
    const { events, closing, track } = this.#options
    const { name, weight, waitMs, signal } = options
    const askedAt = performance.now()
    const [wait, answer] = [new AbortController(), new AbortController()]
    const forgets = [closing, signal].map((one) =>
      whenAborted(one, (reason) => {
        wait.abort(reason)
        answer.abort(reason)
      }),
    )
    const timers =
      waitMs > 0
        ? [
            setTimeout(() => wait.abort(waitOver), waitMs),
            setTimeout(() => answer.abort(waitOver), waitMs + maxLastAnswerMs),
          ]
        : []
    try {
      const outcome = await track(this.#acquireWithin(options, { wait: wait.signal, answer: answer.signal }))
      const waitedMs = performance.now() - askedAt
      if (outcome instanceof Permit)
        events.emitter('limit.acquired')?.({ name, weight, fence: outcome.fence, waitedMs })
      else events.emitter('limit.reached')?.({ name, weight, inUse: outcome.inUse, waitedMs })
      return outcome
    } finally {
      for (const timer of timers) clearTimeout(timer)
      for (const forget of forgets) forget()
    }
  }

  /** Asks under one life after the other, until there is an answer that counts. */
  async #acquireWithin(
    { key, name, max, weight, waitMs }: AcquireOptions,
    giveUp: GiveUpSignals,
  ): Promise<Permit | Refusal> {
    const askedAt = performance.now()
    const waits = waitMs > 0
    let failure: unknown = new DatabaseUnreachableError(
      'The database has not answered within the time given for waiting',
    )
    for (let attempt = 0; ; attempt++) {
      try {
        giveUp.wait.throwIfAborted()
        const epoch = await this.#presentEpoch(waits, giveUp.wait)
        const token = randomBytes(8).readBigInt64BE().toString()
        const request = { key, name, max, weight, token, epoch }
        const decision = waits
          ? await this.#waitInQueue(request, giveUp)
          : await this.#requestOnce('try', request, giveUp)
        if (decision instanceof Permit) return decision
        if (decision.verdict === 'full' || decision.verdict === 'left') {
          return { ...decision, max, weight, waitedMs: waits ? performance.now() - askedAt : 0 }
        }
        failure = epoch.loss ?? notPresentError()
      } catch (error) {
        if (error === waitOver) throw failure
        if (!(error instanceof DatabaseUnreachableError)) throw error
        failure = error
      }
      // Whoever waits goes on waiting, also for the database.
      if (!waits || giveUp.wait.reason === waitOver) throw failure
      await pause(backoffMs(attempt, 20, 500), giveUp.wait)
    }
  }

  /** One statement, and its answer; what is granted after the caller has given up is given back. */
  async #requestOnce(
    kind: 'try' | 'wait' | 'leave',
    request: PermitRequest,
    giveUp: GiveUpSignals,
  ): Promise<PermitDecision | Permit> {
    try {
      const decision = await orAborted(giveUp.answer, this.#options.batcher.add(kind, request))
      return decision.verdict === 'granted'
        ? (this.#onGranted(request, decision.fence) ?? { ...decision, verdict: 'not-present' })
        : decision
    } catch (error) {
      this.#withdraw(request)
      throw error
    }
  }

  /** Takes it, or stands in the queue until it is granted. */
  async #waitInQueue(request: PermitRequest, giveUp: GiveUpSignals): Promise<PermitDecision | Permit> {
    const { waitlist, database } = this.#options
    const wait = waitlist.add(request, keysHeldByFlow(database.address))
    try {
      const decision = await this.#requestOnce('wait', request, giveUp)
      if (decision instanceof Permit || decision.verdict !== 'waiting') return decision
      wait.isQueued = true
      const outcome = await orAborted(giveUp.wait, wait.outcome).catch((error) => {
        // Unless it was granted in the same instant.
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

  /** The handle, unless the life under which it was asked for is over. */
  #onGranted(request: PermitRequest, fence: number): Permit | undefined {
    if (request.epoch.trusted && !this.#options.closing.aborted) return this.#options.newPermit(request, fence)
    this.#withdraw(request)
    return undefined
  }

  /** Gives back what may have been granted, or may yet be, to nobody. */
  #withdraw(request: PermitRequest): void {
    const { batcher, track } = this.#options
    track(batcher.sendReliably('cancel', request)).catch(() => {})
  }

  /** The present life. Whoever would not wait waits a moment for it. */
  async #presentEpoch(waits: boolean, giveUp: AbortSignal): Promise<Epoch> {
    const { presence } = this.#options
    const { epoch } = presence
    if (epoch) return epoch
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

function notPresentError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('This instance is not present in the database just now, so it can hold no permit')
}
