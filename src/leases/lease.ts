import {
  type Duration,
  describe,
  duration,
  type Events,
  Handle,
  type HoldfastError,
  maxTimerMs,
  orAborted,
  UsageError,
} from '../base/index.js'
import { type CallerTransaction, executorOf, type Statement } from '../postgres/index.js'
import { LeaseLostError } from './errors.js'
import type { LeaseHold, LeaseHoldWatcher } from './lease-hold.js'

/**
 * The minimum is 1 s, because a busy process would lose a shorter lease. The maximum is the limit of Node.js timers.
 */
export const ttlRule = duration(1_000, maxTimerMs)

/** Functions and shared objects that each lease receives from the `Leases` object. */
export interface LeaseOperations {
  /** Renews the lease immediately, and uses `ttlMs` for later renewals. */
  extend(holding: LeaseHold, ttlMs: number): Promise<void>
  /** Releases the hold if no handle depends on it. */
  releaseUnused(holding: LeaseHold): Promise<void>
  readonly guard: Statement
  readonly events: Events
}

/**
 * Handle to a lease. The handle renews the lease until the lease is released or lost.
 *
 * @example
 * await using lease = await holdfast.leases.acquire('etl', { ttl: '30s' })
 * for (const part of parts) {
 *   await lease.extend() // fails fast when the lease has been lost
 *   await load(part, lease.fence)
 * }
 */
export class Lease extends Handle {
  readonly name: string
  /** Fencing token, larger than the fencing token of every earlier lease or lock on the name. */
  readonly fence: number
  /**
   * Token of this acquisition. Any process that has the token can acquire the lease again, or release the lease for
   * everyone who holds the token with `leases.release(name, token)`.
   */
  readonly token: string
  readonly #holding: LeaseHold
  readonly #operations: LeaseOperations
  readonly #watcher: LeaseHoldWatcher = {
    lost: (reason) => this.lose(this.#lossError(reason)),
    releaseRequested: (reason) => this.requestRelease(reason),
  }

  /** @internal */
  constructor(holding: LeaseHold, operations: LeaseOperations) {
    super()
    this.name = holding.key.label
    this.fence = holding.fence
    this.token = holding.token
    this.#holding = holding
    this.#operations = operations
    holding.watchers.add(this.#watcher)
  }

  /** 64-bit key of the name, in decimal. */
  get key(): string {
    return this.#holding.key.key
  }

  /** Time in milliseconds until the lease expires if it is not renewed. */
  get ttlMs(): number {
    return this.#holding.ttlMs
  }

  /**
   * Renews the lease now. A new `ttl` also applies to later renewals. A shorter `ttl` does not move the current expiry
   * to an earlier time. Throws `LeaseLostError` if the lease has been lost, so call `extend` between the steps of long
   * work to fail fast.
   *
   * @example
   * await lease.extend('5m') // the next part takes long, and may block the event loop
   */
  async extend(ttl: Duration = this.#holding.ttlMs): Promise<void> {
    const ttlMs = ttlRule.read(ttl)
    if (ttlMs === undefined) {
      throw new UsageError(`Expected the ttl of lease.extend to be ${ttlRule.expected}, got ${describe(ttl)}`)
    }
    if (this.isReleased) throw new UsageError('Expected extend to be called on a held lease, got a released lease')
    this.throwIfLost()
    // The caller must be notified of the loss even if no response ever arrives.
    await orAborted(this.signal, this.#operations.extend(this.#holding, ttlMs))
    this.throwIfLost()
  }

  /**
   * Makes the transaction fail with a `StaleFenceError` if the lease has ended. Call `guard` inside the transaction,
   * before the commit. A guarded transaction never overwrites a later holder's writes. Throws a `LeaseLostError` if this process already
   * knows that the lease was lost.
   *
   * @example
   * await lease.guard(client)
   * await client.query('update report set …')
   */
  async guard(tx: CallerTransaction): Promise<void> {
    if (this.isReleased) throw new UsageError('Expected guard to be called on a held lease, got a released lease')
    this.throwIfLost()
    await executorOf(tx).query(this.#operations.guard.text, [this.key, this.fence])
  }

  /** @internal */
  protected currentLoss(): LeaseLostError | undefined {
    const reason = this.#holding.loss
    return reason && this.#lossError(reason)
  }

  /** @internal */
  protected async releaseOnServer(): Promise<void> {
    this.#holding.watchers.delete(this.#watcher)
    await this.#operations.releaseUnused(this.#holding)
  }

  /** @internal */
  protected reportEnd(heldMs: number, lost: HoldfastError | undefined, reason: Error | undefined): void {
    const { name, key, fence } = this
    if (lost) this.#operations.events.emitter('lease.lost')?.({ name, key, fence, heldMs, reason: lost })
    else this.#operations.events.emitter('lease.released')?.({ name, key, fence, heldMs, reason })
  }

  #lossError(reason: HoldfastError): LeaseLostError {
    return new LeaseLostError(this.name, this.fence, reason)
  }
}
