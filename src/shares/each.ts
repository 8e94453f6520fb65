import { backoffMs, isRetryable, pause } from '../base/index.js'
import type { Keeper, Kept, Presence } from '../postgres/index.js'
import { type Failure, ResourcesFailedError } from './errors.js'
import type { Ledger, Round } from './ledger.js'
import { Owned, resourceName } from './owned.js'

export interface EachResult {
  /** What this call has done. */
  readonly done: string[]
  /** What others have done, or (without `stay`) are at work on. */
  readonly skipped: string[]
}

interface EachGround {
  readonly keeper: Keeper
  readonly presence: Presence
  readonly ledger: Ledger
}

interface EachTerms {
  readonly round: Round
  readonly concurrency: number
  readonly stay: boolean
  readonly signal: AbortSignal | undefined
}

/** A resource that is held, and was not done when it was looked at after that. */
interface Taken {
  readonly owned: Owned
  readonly session: number
  readonly beganAt: number
}

/** Only so much is taken ahead as is worked on in this time: what is taken ahead, nobody else can begin. */
const aheadMs = 50
const mostAhead = 200
const mostSettling = 500
const shortestPauseMs = 25
const longestPauseMs = 1_000

/**
 * One call of `shares.each`. Goes through the resources in passes, from a random place on, until all are decided:
 *
 *     open ──► taken ──► looked at again ──► worked on ──► recorded, released: done
 *      ▲ ▲       │             │                 │
 *      │ └─ busy ┘             └─► done by       ├─► failed
 *      │                           others        │
 *      └───────────── lost ──────────────────────┘
 *
 * The look after the lock is what makes a round a round: whoever had the resource before has recorded it before it let go.
 */
export class Each {
  readonly #ground: EachGround
  readonly #share: string
  readonly #work: (resource: string, owned: Owned) => unknown
  readonly #terms: EachTerms
  readonly #resources: readonly string[]
  /** Neither decided nor in work here. */
  readonly #open: Set<string>
  readonly #done: string[] = []
  readonly #skipped: string[] = []
  readonly #failed: Failure[] = []
  readonly #ready: Taken[] = []
  readonly #settling = new Set<Promise<void>>()
  /** What this pass has not tried yet. */
  #untried: string[] = []
  #filling: Promise<void> | undefined
  #calledAt: number | null = null
  #mustLook = true
  #idlePasses = 0
  #wasIdle = true
  #averageMs = aheadMs
  #broken: { error: unknown } | undefined

  constructor(
    ground: EachGround,
    resources: readonly string[],
    work: (resource: string, owned: Owned) => unknown,
    terms: EachTerms,
  ) {
    this.#ground = ground
    this.#work = work
    this.#terms = terms
    this.#share = terms.round.share
    const start = Math.floor(Math.random() * resources.length)
    this.#resources = [...resources.slice(start), ...resources.slice(0, start)]
    this.#open = new Set(this.#resources)
  }

  async run(): Promise<EachResult> {
    while (this.#open.size > 0 && !this.#isOver) {
      await Promise.all(Array.from({ length: this.#terms.concurrency }, () => this.#worker()))
      // What was lost is open again.
      await Promise.all(this.#settling)
    }
    await Promise.all(this.#ready.splice(0).map(({ owned }) => owned.end()))
    this.#terms.signal?.throwIfAborted()
    if (this.#broken) throw this.#broken.error
    if (this.#failed.length > 0) {
      throw new ResourcesFailedError(this.#share, this.#failed, this.#done, this.#skipped)
    }
    return { done: this.#done, skipped: this.#skipped }
  }

  get #isOver(): boolean {
    return this.#broken !== undefined || this.#terms.signal?.aborted === true
  }

  async #worker(): Promise<void> {
    for (;;) {
      const taken = await this.#next()
      if (!taken) return
      await this.#workOn(taken)
    }
  }

  async #next(): Promise<Taken | undefined> {
    while (!this.#isOver) {
      const taken = this.#ready.shift()
      if (taken) return taken
      if (this.#open.size === 0) return undefined
      this.#filling ??= this.#fill().finally(() => {
        this.#filling = undefined
      })
      await this.#filling
    }
    return undefined
  }

  async #workOn({ owned, session, beganAt }: Taken): Promise<void> {
    const from = performance.now()
    let failure: { error: unknown } | undefined
    try {
      if (!owned.signal.aborted) await this.#work(owned.resource, owned)
    } catch (error) {
      failure = { error }
    }
    this.#averageMs += (performance.now() - from - this.#averageMs) / 4
    const settling = this.#settle(owned, session, beganAt, failure).finally(() => this.#settling.delete(settling))
    this.#settling.add(settling)
    // The next one begins while this one is recorded, but not any number of them.
    if (this.#settling.size >= mostSettling) await Promise.race(this.#settling)
  }

  async #settle(
    owned: Owned,
    session: number,
    beganAt: number,
    failure: { error: unknown } | undefined,
  ): Promise<void> {
    const { resource } = owned
    try {
      // Whoever was told to stop may have stopped in the middle, whatever it says.
      if (owned.signal.aborted) this.#undecided(owned)
      else if (failure) this.#failed.push({ resource, error: failure.error })
      else if (await this.#ground.ledger.record(this.#terms.round, owned, session, beganAt)) this.#done.push(resource)
      else this.#undecided(owned)
    } catch (error) {
      this.#failed.push({ resource, error })
    }
    // What was done is done. Where it cannot be given back, it is free when the session or the lease that holds it is over.
    await owned.end().catch(() => {})
  }

  #undecided(owned: Owned): void {
    const { resource, signal } = owned
    if (this.#terms.stay) this.#open.add(resource)
    else this.#failed.push({ resource, error: signal.reason ?? new Error('It was lost before it could be recorded') })
  }

  /** Takes some more, or waits a moment where everything left is taken by others. */
  async #fill(): Promise<void> {
    try {
      if (this.#mustLook) await this.#look()
      if (this.#open.size === 0) return
      if (this.#untried.length > 0) return await this.#take(this.#untried.splice(0, this.#howMany()))
      if (!this.#terms.stay) return this.#leaveTheRest()
      if (this.#wasIdle) await this.#idle()
      this.#mustLook = true
    } catch (error) {
      // Whoever stays goes on waiting, also for the database.
      if (!this.#terms.stay || !isRetryable(error)) this.#broken = { error }
      else await pause(backoffMs(this.#idlePasses++, shortestPauseMs, longestPauseMs), this.#terms.signal)
    }
  }

  #howMany(): number {
    const { concurrency } = this.#terms
    const each = Math.max(1, Math.floor(aheadMs / Math.max(this.#averageMs, aheadMs / mostAhead)))
    return Math.max(concurrency, Math.min(mostAhead, concurrency * each))
  }

  /** One statement tells what is done of all that is open; then a pass begins over the rest. */
  async #look(): Promise<void> {
    const { now, done } = await this.#ground.ledger.look(this.#terms.round, [...this.#open], this.#calledAt)
    this.#calledAt ??= now
    for (const resource of done) this.#skip(resource)
    // Those that were tried in this pass are tried again only when it is over.
    const untried = new Set(this.#untried)
    const isFresh = untried.size === 0
    this.#untried = this.#resources.filter((resource) => this.#open.has(resource) && (isFresh || untried.has(resource)))
    this.#mustLook = false
    if (isFresh) this.#wasIdle = true
  }

  #skip(resource: string): void {
    if (this.#open.delete(resource)) this.#skipped.push(resource)
  }

  #leaveTheRest(): void {
    for (const resource of [...this.#open]) this.#skip(resource)
  }

  async #take(resources: readonly string[]): Promise<void> {
    const tries = resources.map((resource) => this.#ground.keeper.tryAcquire(resourceName(this.#share, resource)))
    const results = await Promise.allSettled(tries)
    const granted: [string, Kept][] = []
    let failure: { error: unknown } | undefined
    for (const [at, result] of results.entries()) {
      if (result.status === 'rejected') failure = { error: result.reason }
      else if (result.value) granted.push([resources[at]!, result.value])
    }
    await this.#check(granted)
    // What was asked for with it was given, or was busy; the rest is tried again in the next pass.
    if (failure) throw failure.error
  }

  /** Looks again at what was granted: what others did before is done, and this look comes after their last word. */
  async #check(granted: readonly [string, Kept][]): Promise<void> {
    if (granted.length === 0) return
    const { ledger, presence } = this.#ground
    try {
      const { number: session } = presence.life ?? (await presence.whenLiving(this.#terms.signal))
      const resources = granted.map(([resource]) => resource)
      const { now, done } = await ledger.look(this.#terms.round, resources, this.#calledAt)
      const given: Promise<void>[] = []
      for (const [resource, kept] of granted) {
        if (!done.has(resource) && this.#open.delete(resource)) {
          this.#ready.push({ owned: new Owned(resource, kept, this.#terms.signal), session, beganAt: now })
        } else {
          this.#skip(resource)
          given.push(kept.release())
        }
      }
      // Others were here: most likely they have done more of what is left.
      if (done.size > 0) this.#mustLook = true
      if (done.size < granted.length) {
        this.#wasIdle = false
        this.#idlePasses = 0
      }
      await Promise.all(given)
    } catch (error) {
      await Promise.all(granted.map(([, kept]) => kept.release()))
      throw error
    }
  }

  /** Everything left is taken by others: waits for one of them, so that what a dead instance leaves goes on at once. */
  async #idle(): Promise<void> {
    const pauseMs = backoffMs(this.#idlePasses++, shortestPauseMs, longestPauseMs)
    const open = [...this.#open]
    const resource = open[Math.floor(Math.random() * open.length)]!
    // A wait takes up a connection, so it is not for a short while.
    if (pauseMs < longestPauseMs / 8) return pause(pauseMs, this.#terms.signal)
    const { signal } = this.#terms
    const kept = await this.#ground.keeper
      .tryAcquire(resourceName(this.#share, resource), { wait: Math.round(pauseMs), ...(signal && { signal }) })
      .catch((error) => {
        if (signal?.aborted) return null
        throw error
      })
    if (kept) await this.#check([[resource, kept]])
  }
}
