import { Batcher, type Key } from '../base/index.js'
import type { WaitTracker } from '../postgres/index.js'
import type { EpochDependents } from './epoch-dependents.js'
import type { PermitRequest, Verdict } from './permit-batcher.js'
import type { LimitStore } from './store.js'

/** A fence, or `gone`: the queue, or the life, is over, and it must be asked for again. */
type WaitOutcome = number | 'gone'

interface WaitRow {
  ordinal: number
  verdict: Verdict
  fence: string | null
}

const pollEveryMs = 50

/**
 * The waits of an instance. They stand in the queue of the database; here they are told of their grant, in one of three
 * ways: by the answer to something else that the instance asked; by a notification, whereupon the instance looks; and by a look
 * from time to time, which alone is relied on. A look also finds out whether somebody who stands before has died.
 */
export class Waitlist {
  readonly #store: LimitStore
  readonly #dependents: EpochDependents
  readonly #waits = new Map<string, PermitWait>()
  readonly #checks = new Batcher<PermitRequest, WaitRow>((requests) => this.#check(requests))
  readonly #longWaits: WaitTracker
  #polls = 0
  #timer: NodeJS.Timeout | undefined

  constructor(store: LimitStore, dependents: EpochDependents, longWaits: WaitTracker) {
    this.#store = store
    this.#dependents = dependents
    this.#longWaits = longWaits
    longWaits.addSource(() => this.#waitsThatHold())
  }

  /** Who waits is told by the rows in the queue; what else the same flow of control holds is written down beside. */
  *#waitsThatHold(): Iterable<PermitWait> {
    for (const wait of this.#waits.values()) if (wait.isQueued && wait.request.holding.length > 0) yield wait
  }

  /** To be called before the server is asked: the grant may be heard of before the answer. */
  add(request: PermitRequest, holding: readonly string[]): PermitWait {
    const wait = new PermitWait(request, holding, () => this.#remove(wait))
    if (holding.length > 0) this.#longWaits.scheduleWrite()
    this.#waits.set(request.token, wait)
    this.#dependents.add(request.epoch, wait)
    this.#timer ??= setInterval(() => this.#poll(), pollEveryMs * (0.9 + Math.random() * 0.2))
    return wait
  }

  onGranted(token: string, fence: number): void {
    this.#waits.get(token)?.settle(fence)
  }

  /** A notification says that it may have been granted. */
  onGrantNotified(token: string): void {
    const wait = this.#waits.get(token)
    if (wait) void this.#checkWait(wait)
  }

  /** The places of those of the requests that are not there any more. */
  async missing(requests: readonly PermitRequest[]): Promise<number[]> {
    return (await this.#check(requests)).filter(({ verdict }) => verdict === 'gone').map(({ ordinal }) => ordinal)
  }

  #remove(wait: PermitWait): void {
    this.#waits.delete(wait.permitRequest.token)
    this.#dependents.delete(wait.permitRequest.epoch, wait)
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
      // Unless the request had perhaps not arrived yet.
      else if (verdict === 'gone' && isQueued) wait.settle('gone')
    } catch {
      // The next look will tell.
    } finally {
      wait.isBeingChecked = false
    }
  }

  #check(requests: readonly PermitRequest[]): Promise<WaitRow[]> {
    const { channel, sql } = this.#store
    const waits = requests.map(({ key, token }, ordinal) => ({ ordinal, key: key.key, token }))
    return this.#store
      .run<WaitRow>(sql.check_waits, [channel, JSON.stringify(waits)])
      .then((rows) => rows.sort((a, b) => a.ordinal - b.ordinal))
  }
}

/** One wait, from before it is asked for until it is granted, gone or given up. */
export class PermitWait {
  readonly kind = 'permit'
  readonly request: { readonly holding: readonly string[] }
  readonly requestedAt = performance.now()
  readonly permitRequest: PermitRequest
  readonly outcome: Promise<WaitOutcome>
  /** The server has said that it stands in the queue. */
  isQueued = false
  isBeingChecked = false
  #polls = 0
  #settle!: (outcome: WaitOutcome) => void
  readonly leave: () => void

  constructor(request: PermitRequest, holding: readonly string[], leave: () => void) {
    this.permitRequest = request
    this.request = { holding }
    this.leave = leave
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

  /** After 50 and 100 ms, then five times, then twice a second; all of an instance together, so that it is one statement. */
  isDue(poll: number): boolean {
    if (!this.isQueued || this.isBeingChecked) return false
    this.#polls++
    return this.#polls <= 2 || poll % (this.#polls < 20 ? 4 : 10) === 0
  }
}
