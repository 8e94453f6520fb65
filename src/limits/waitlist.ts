import { Batcher, type Key } from '../base/index.js'
import type { WaitTracker } from '../postgres/index.js'
import type { EpochDependents } from './epoch-dependents.js'
import type { PermitRequest, Verdict } from './permit-batcher.js'
import type { LimitStore } from './store.js'

/** Fence of the grant, or `gone` if the request is no longer in the queue and must be sent again. */
type WaitOutcome = number | 'gone'

interface WaitRow {
  ordinal: number
  verdict: Verdict
  fence: string | null
}

const pollEveryMs = 50

/**
 * Tracks this instance's waiting requests, which are rows in the database's queue. A waiting request detects its grant in the response to
 * another request from this instance, in a check after a notification, or in a periodic poll. Only the poll is reliable. A poll also
 * removes dead holders and waiters.
 */
export class Waitlist {
  readonly #waits = new Map<string, PermitWait>()
  readonly #checks = new Batcher<PermitRequest, WaitRow>((requests) => this.#check(requests))
  #polls = 0
  #timer: NodeJS.Timeout | undefined

  constructor(
    readonly store: LimitStore,
    readonly dependents: EpochDependents,
    readonly longWaits: WaitTracker,
  ) {
    longWaits.addSource(() => this.#waitsThatHold())
  }

  /**
   * Yields the waiting requests whose enclosing handlers hold other names. All other waiting requests are visible in
   * the `permit` table.
   */
  *#waitsThatHold(): Iterable<PermitWait> {
    for (const wait of this.#waits.values()) if (wait.isQueued && wait.request.holding.length > 0) yield wait
  }

  /**
   * Adds a waiting request. Call this method before sending the request, because the grant's notification may arrive
   * before the response.
   */
  add(request: PermitRequest, holding: readonly string[]): PermitWait {
    const wait = new PermitWait(request, holding, () => this.#remove(wait))
    if (holding.length > 0) this.longWaits.scheduleWrite()
    this.#waits.set(request.token, wait)
    this.dependents.add(request.epoch, wait)
    this.#timer ??= setInterval(() => this.#poll(), pollEveryMs * (0.9 + Math.random() * 0.2))
    return wait
  }

  onGranted(token: string, fence: number): void {
    this.#waits.get(token)?.settle(fence)
  }

  /** Checks a waiting request after a notification. */
  onGrantNotified(token: string): void {
    const wait = this.#waits.get(token)
    if (wait) void this.#checkWait(wait)
  }

  /** Returns the indexes of the requests that are no longer in the database. */
  async missing(requests: readonly PermitRequest[]): Promise<number[]> {
    return (await this.#check(requests)).filter(({ verdict }) => verdict === 'gone').map(({ ordinal }) => ordinal)
  }

  #remove(wait: PermitWait): void {
    this.#waits.delete(wait.permitRequest.token)
    this.dependents.delete(wait.permitRequest.epoch, wait)
    if (this.#waits.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #poll(): void {
    this.#polls++
    for (const wait of this.#waits.values()) if (wait.isDue(this.#polls)) void this.#checkWait(wait)
  }

  async #checkWait(wait: PermitWait): Promise<void> {
    wait.isBeingChecked = true
    const { isQueued } = wait
    try {
      const { verdict, fence } = await this.#checks.add(wait.permitRequest)
      if (verdict === 'granted') wait.settle(Number(fence))
      // If the request was not in the queue before the check, it may not have reached the database yet.
      else if (verdict === 'gone' && isQueued) wait.settle('gone')
    } catch {
      // Ignores the error, because the next poll repeats the check.
    } finally {
      wait.isBeingChecked = false
    }
  }

  #check(requests: readonly PermitRequest[]): Promise<WaitRow[]> {
    const { channel, sql } = this.store
    const waits = requests.map(({ key, token }, ordinal) => ({ ordinal, key: key.key, token }))
    return this.store
      .run<WaitRow>(sql.check_waits, [channel, JSON.stringify(waits)])
      .then((rows) => rows.sort((a, b) => a.ordinal - b.ordinal))
  }
}

export class PermitWait {
  readonly kind = 'permit'
  readonly request: { readonly holding: readonly string[] }
  readonly requestedAt = performance.now()
  readonly outcome: Promise<WaitOutcome>
  /** Whether the server has confirmed that the wait is in the queue. */
  isQueued = false
  isBeingChecked = false
  #polls = 0
  #settle!: (outcome: WaitOutcome) => void

  constructor(
    readonly permitRequest: PermitRequest,
    holding: readonly string[],
    readonly leave: () => void,
  ) {
    this.request = { holding }
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  get key(): Key {
    return this.permitRequest.key
  }

  settle(outcome: WaitOutcome): void {
    this.leave()
    this.#settle(outcome)
  }

  onLost(): void {
    this.settle('gone')
  }

  /**
   * Returns whether this poll checks the wait. Each wait is checked after 50 and 100 ms, then five times a second, and later twice a
   * second. All waits that are due at the same poll share one statement.
   */
  isDue(poll: number): boolean {
    if (!this.isQueued || this.isBeingChecked) return false
    this.#polls++
    return this.#polls <= 2 || poll % (this.#polls < 20 ? 4 : 10) === 0
  }
}
