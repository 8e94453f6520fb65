import {
  backoffMs,
  formatDuration,
  type Key,
  keysHeldHere,
  longestTimerMs,
  unlessAborted,
  whenAborted,
} from '../base/index.js'
import { answerWithinMs, type Database, DatabaseUnreachableError, type Waiting, type Waits } from '../postgres/index.js'
import { LeaseLostError } from './errors.js'
import { Holding } from './holding.js'
import { type Keeping, Lease } from './lease.js'
import type { Answer, Ask, Ledger } from './ledger.js'
import type { Releasing } from './releasing.js'
import { idOf, type Renewals } from './renewals.js'

export interface TakingOptions {
  readonly database: Database
  readonly ledger: Ledger
  readonly renewals: Renewals
  readonly releasing: Releasing
  readonly keeping: Keeping
  /** Whether somebody tells when a name is released. */
  readonly isTold: boolean
  /** Where long waits are written down. */
  readonly waits: Waits
}

interface Wait extends Waiting {
  /** Why it is over. */
  failure: unknown
}

/** An answer may take this long also where the name itself is waited for less. */
const leastPatienceMs = 1_000

/** Takes names: asks, sleeps while somebody else has it, and asks again. What is granted after the caller has given up is given back. */
export class Taking {
  readonly #options: TakingOptions
  /** Those who wait for a name, to be woken when it is released. */
  readonly #sleepers = new Map<string, Set<() => void>>()
  /** The calls that wait, to be written down when they do so for long. */
  readonly #waiting = new Set<Waiting>()
  /** Releases, in the background, of names that may have been granted to no caller. */
  readonly #releases = new Set<Promise<void>>()

  constructor(options: TakingOptions) {
    this.#options = options
    options.waits.watch(() => this.#waiting)
  }

  /** The lease, or null when somebody else has it until the wait is over. */
  async take(ask: Ask, waitMs: number, giveUp: AbortSignal): Promise<Lease | null> {
    const wait = this.#wait(ask.key)
    try {
      return await this.#compete(ask, waitMs, wait, giveUp)
    } finally {
      this.#waiting.delete(wait)
      this.#options.waits.over(wait)
    }
  }

  /** Somebody has released a name that we may wait for. */
  released(key: string): void {
    for (const wake of [...(this.#sleepers.get(key) ?? [])]) wake()
  }

  /** Resolves when every name is released that was granted to no caller so far. */
  async settled(): Promise<void> {
    await Promise.all(this.#releases)
  }

  async #compete(ask: Ask, waitMs: number, wait: Wait, giveUp: AbortSignal): Promise<Lease | null> {
    const { releasing, waits } = this.#options
    const until = performance.now() + waitMs
    const id = idOf(ask.key.key, ask.token)
    for (let attempt = 0; ; attempt++) {
      giveUp.throwIfAborted()
      if (wait.failure) throw wait.failure
      let answer: Answer | undefined
      try {
        const leftMs = until - performance.now()
        for (let before = releasing.underWay(id); before; before = releasing.underWay(id)) {
          await unlessAborted(giveUp, before)
        }
        const entering = this.#enter(ask, waitMs === 0 ? answerWithinMs : Math.max(leftMs, leastPatienceMs), giveUp)
        if (ask.isShared) releasing.mark(id, entering)
        const outcome = await entering
        if (outcome instanceof Lease) return outcome
        answer = outcome
      } catch (error) {
        // Whoever waits goes on waiting, also for the database.
        if (!(error instanceof DatabaseUnreachableError) || performance.now() >= until) throw error
      }
      const leftMs = until - performance.now()
      if (leftMs <= 0 && answer && !answer.settled) throw unsettled()
      if (leftMs <= 0) return null
      this.#waiting.add(wait)
      waits.began(wait)
      waits.wake()
      await this.#sleep(ask.key.key, answer, attempt, leftMs, giveUp)
    }
  }

  #wait(key: Key): Wait {
    const wait: Wait = {
      kind: 'lease',
      key,
      ask: { holding: keysHeldHere(this.#options.database.address) },
      askedAt: performance.now(),
      failure: undefined,
      fail: (error) => {
        wait.failure = error
        this.released(key.key)
      },
    }
    return wait
  }

  /** One try: the lease, or why not. */
  async #enter(ask: Ask, patienceMs: number, giveUp: AbortSignal): Promise<Lease | Answer> {
    const { renewals, keeping } = this.#options
    const own = renewals.find(ask.key.key, ask.token)
    if (own) {
      const lease = new Lease(own, keeping)
      try {
        await unlessAborted(giveUp, lease.extend(Math.max(ask.ttlMs, own.ttlMs)))
        return lease
      } catch (error) {
        await lease.release()
        if (!(error instanceof LeaseLostError)) throw error
      }
    }
    const answer = await this.#askOnce(ask, patienceMs, giveUp)
    return answer.fence === null ? answer : this.#granted(ask, answer.fence, answer.sentAt)
  }

  /** One decision of the database. What is granted after the caller has given up is given back. */
  async #askOnce(ask: Ask, patienceMs: number, giveUp: AbortSignal): Promise<Answer> {
    const { ledger, releasing } = this.#options
    const acquiring = ledger.acquire(ask)
    const asking = Promise.all([acquiring, ledger.register(ask.key)])
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      const reason = `No answer came within ${formatDuration(patienceMs)}`
      if (patienceMs <= longestTimerMs) {
        timer = setTimeout(() => reject(new DatabaseUnreachableError(reason)), patienceMs)
      }
    })
    try {
      const [answer] = await unlessAborted(giveUp, Promise.race([asking, late]))
      return answer
    } catch (error) {
      // Granted late, or perhaps granted without our having heard of it, or granted for a key that is another's.
      // Released only when it has been decided: a release that overtook the acquisition would find nothing.
      // Only what this ask was granted: what its token had before is another's to give back. Where that is not known, it expires.
      const release = acquiring.then(
        ({ isFresh, fence }) => (isFresh ? releasing.surely({ ...ask, fence }) : undefined),
        () => (ask.isShared ? undefined : releasing.surely({ ...ask, fence: null })),
      )
      this.#releases.add(release)
      releasing.mark(idOf(ask.key.key, ask.token), release)
      void release.finally(() => this.#releases.delete(release))
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  #granted({ key, token, ttlMs }: Ask, fence: number, sentAt: number): Lease {
    const { renewals, ledger, keeping } = this.#options
    const holding = new Holding(key, token, fence, ttlMs, sentAt)
    renewals.add(holding)
    ledger.sweepSometimes()
    return new Lease(holding, keeping)
  }

  /** Until the name is released, as far as we are told, or it is worth another look. */
  async #sleep(
    key: string,
    answer: Answer | undefined,
    attempt: number,
    leftMs: number,
    giveUp: AbortSignal,
  ): Promise<void> {
    const { isTold, ledger } = this.#options
    const mostMs = isTold ? 1_000 : 250
    const { freeInMs = null, settled = true, wanted = false, fence } = answer ?? {}
    const freeSoonMs = freeInMs !== null && freeInMs > 0 ? freeInMs + 1 : Number.POSITIVE_INFINITY
    const pauseMs = Math.min(leftMs, freeSoonMs, backoffMs(attempt, 20, mostMs))
    if (isTold && fence === null && settled && !wanted) void ledger.want(key).catch(() => {})
    const sleepers = this.#sleepers.get(key) ?? new Set()
    this.#sleepers.set(key, sleepers)
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        forget()
        sleepers.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, pauseMs)
      sleepers.add(wake)
      const forget = whenAborted(giveUp, () => setImmediate(wake))
    })
    if (sleepers.size === 0 && this.#sleepers.get(key) === sleepers) this.#sleepers.delete(key)
  }
}

function unsettled(): DatabaseUnreachableError {
  return new DatabaseUnreachableError(
    'The server has restarted, and somebody may still believe in what was held before',
  )
}
