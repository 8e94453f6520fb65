import { randomBytes } from 'node:crypto'
import { backoffMs, type Events, keysHeldHere, pause, unlessAborted, whenAborted } from '../base/index.js'
import { type Database, DatabaseUnreachableError, type Life, type Presence } from '../postgres/index.js'
import { Permit } from './permit.js'
import type { Answer, Request, Turns } from './turns.js'
import type { Waiting } from './waiting.js'

/** What a caller asks for. */
export interface Wanted extends Pick<Request, 'key' | 'name' | 'max' | 'weight'> {
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
}

/** Why there is no permit. */
export type Refusal = Answer & { readonly max: number; readonly weight: number; readonly waitedMs: number }

export interface TakingOptions {
  readonly database: Database
  readonly presence: Presence
  readonly events: Events
  readonly turns: Turns
  readonly waiting: Waiting
  readonly closing: AbortSignal
  /** Makes the handle of what was granted. */
  readonly hold: (request: Request, fence: number) => Permit
  /** Closing waits for it. */
  readonly tracked: <T>(promise: Promise<T>) => Promise<T>
}

/** Whoever would not wait for a permit waits so long for this instance to be present. */
const comeToLifeMs = 2_000
/** And whoever has waited in vain, for the last word of the database: for an answer that is under way, or to leave the queue. */
const lastWordMs = 2_000

/** The reason of a wait that is over. */
const over = Symbol('over')

/** When a caller gives up: its wait, and then the answer to a statement that is under way. */
interface Patience {
  readonly wait: AbortSignal
  readonly answer: AbortSignal
}

/**
 * Takes permits: asks once, or waits in the queue; under one life of the instance after the other, until there is an answer
 * that counts. Whatever may have been granted to a caller who has given up is given back.
 */
export class Taking {
  readonly #options: TakingOptions

  constructor(options: TakingOptions) {
    this.#options = options
  }

  async take(wanted: Wanted): Promise<Permit | Refusal> {
    const { events, closing, tracked } = this.#options
    const { name, weight, waitMs, signal } = wanted
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
        ? [setTimeout(() => wait.abort(over), waitMs), setTimeout(() => answer.abort(over), waitMs + lastWordMs)]
        : []
    try {
      const taken = await tracked(this.#takeWithin(wanted, { wait: wait.signal, answer: answer.signal }))
      const waitedMs = performance.now() - askedAt
      if (taken instanceof Permit) events.to('limit.acquired')?.({ name, weight, fence: taken.fence, waitedMs })
      else events.to('limit.reached')?.({ name, weight, inUse: taken.inUse, waitedMs })
      return taken
    } finally {
      for (const timer of timers) clearTimeout(timer)
      for (const forget of forgets) forget()
    }
  }

  /** Asks under one life after the other, until there is an answer that counts. */
  async #takeWithin({ key, name, max, weight, waitMs }: Wanted, patience: Patience): Promise<Permit | Refusal> {
    const askedAt = performance.now()
    const waits = waitMs > 0
    let trouble: unknown = new DatabaseUnreachableError(
      'The database has not answered within the time given for waiting',
    )
    for (let attempt = 0; ; attempt++) {
      try {
        patience.wait.throwIfAborted()
        const life = await this.#living(waits, patience.wait)
        const token = randomBytes(8).readBigInt64BE().toString()
        const request = { key, name, max, weight, token, life }
        const answer = waits ? await this.#queue(request, patience) : await this.#askOnce('take', request, patience)
        if (answer instanceof Permit) return answer
        if (answer.verdict === 'full' || answer.verdict === 'left') {
          return { ...answer, max, weight, waitedMs: waits ? performance.now() - askedAt : 0 }
        }
        trouble = life.loss ?? unsettled()
      } catch (error) {
        if (error === over) throw trouble
        if (!(error instanceof DatabaseUnreachableError)) throw error
        trouble = error
      }
      // Whoever waits goes on waiting, also for the database.
      if (!waits || patience.wait.reason === over) throw trouble
      await pause(backoffMs(attempt, 20, 500), patience.wait)
    }
  }

  /** One statement, and its answer; what is granted after the caller has given up is given back. */
  async #askOnce(kind: 'take' | 'wait' | 'leave', request: Request, patience: Patience): Promise<Answer | Permit> {
    try {
      const answer = await unlessAborted(patience.answer, this.#options.turns.ask(kind, request))
      return answer.verdict === 'granted'
        ? (this.#granted(request, answer.fence) ?? { ...answer, verdict: 'over' })
        : answer
    } catch (error) {
      this.#takeBack(request)
      throw error
    }
  }

  /** Takes it, or stands in the queue until it is granted. */
  async #queue(request: Request, patience: Patience): Promise<Answer | Permit> {
    const { waiting, database } = this.#options
    const wait = waiting.enter(request, keysHeldHere(database.address))
    try {
      const answer = await this.#askOnce('wait', request, patience)
      if (answer instanceof Permit || answer.verdict !== 'waiting') return answer
      wait.isQueued = true
      const outcome = await unlessAborted(patience.wait, wait.outcome).catch((error) => {
        // Unless it was granted in the same instant.
        if (error === over) return this.#askOnce('leave', request, patience)
        this.#takeBack(request)
        throw error
      })
      if (typeof outcome === 'object') return outcome
      if (outcome === 'gone') return { ...answer, verdict: 'gone' }
      return this.#granted(request, outcome) ?? { ...answer, verdict: 'over' }
    } finally {
      wait.leave()
    }
  }

  /** The handle, unless the life under which it was asked for is over. */
  #granted(request: Request, fence: number): Permit | undefined {
    if (request.life.trusted && !this.#options.closing.aborted) return this.#options.hold(request, fence)
    this.#takeBack(request)
    return undefined
  }

  /** Gives back what may have been granted, or may yet be, to nobody. */
  #takeBack(request: Request): void {
    const { turns, tracked } = this.#options
    tracked(turns.surely('void', request)).catch(() => {})
  }

  /** The present life. Whoever would not wait waits a moment for it. */
  async #living(waits: boolean, giveUp: AbortSignal): Promise<Life> {
    const { presence } = this.#options
    const { life } = presence
    if (life) return life
    if (waits) return presence.whenLiving(giveUp)
    const patience = new AbortController()
    const forget = whenAborted(giveUp, (reason) => patience.abort(reason))
    const timer = setTimeout(() => patience.abort(unsettled()), comeToLifeMs)
    try {
      return await presence.whenLiving(patience.signal)
    } finally {
      clearTimeout(timer)
      forget()
    }
  }
}

function unsettled(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('This instance is not present in the database just now, so it can hold no permit')
}
