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

/** From a second, below which a busy process would lose it for nothing, to what a timer of Node can count. */
export const ttlRule = duration(1_000, maxTimerMs)

/** What a lease asks of the room. */
export interface LeaseOperations {
  /** Renews now, and from then on, for that long. */
  extend(holding: LeaseHold, ttlMs: number): Promise<void>
  /** One handle less relies on it; released with the last. */
  releaseUnused(holding: LeaseHold): Promise<void>
  readonly guard: Statement
  readonly events: Events
}

/**
 * A name that is held by a row which expires. Renews itself for as long as it is held.
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
  /** Larger than that of every earlier holder of the name, by lease or by lock. */
  readonly fence: number
  /**
   * What this acquisition is known by. Who knows it can acquire again, or release: `leases.release(name, token)`, for all
   * who know it.
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

  /** The 64-bit key of the name, in decimal. */
  get key(): string {
    return this.#holding.key.key
  }

  /** How long it lasts without a renewal, in milliseconds. */
  get ttlMs(): number {
    return this.#holding.ttlMs
  }

  /**
   * Renews now, for the same time or for another, which then also holds for later renewals. Throws `LeaseLostError` when
   * somebody else has it: call it between the parts of a long work, to fail fast. Time that was granted is never taken
   * back: after a shorter time is asked for, a dead holder keeps the name until the longer one is over.
   *
   * @example
   * await lease.extend('5m') // the next part takes long, and may block the event loop
   */
  async extend(ttl: Duration = this.#holding.ttlMs): Promise<void> {
    const ttlMs = ttlRule.read(ttl)
    if (ttlMs === undefined) {
      throw new UsageError(`Expected the time of lease.extend to be ${ttlRule.expected}, got ${describe(ttl)}`)
    }
    if (this.isReleased) throw new UsageError('Expected a lease that is held to extend, got one that was released')
    this.throwIfLost()
    // A silent network must not keep the news of the loss from whoever waits for the answer.
    await orAborted(this.signal, this.#operations.extend(this.#holding, ttlMs))
    this.throwIfLost()
  }

  /**
   * Refuses (`StaleFenceError`) the writes of this transaction if the lease is over: call it in the transaction, before
   * its commit. Of two holders' guarded transactions, the later holder's is never overwritten.
   *
   * @example
   * await lease.guard(client)
   * await client.query('update report set …')
   */
  async guard(tx: CallerTransaction): Promise<void> {
    if (this.isReleased) throw new UsageError('Expected a lease that is held to guard with, got one that was released')
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
  protected reportEnd(heldMs: number, lost: HoldfastError | undefined, asked: Error | undefined): void {
    const { name, key, fence } = this
    if (lost) this.#operations.events.emitter('lease.lost')?.({ name, key, fence, heldMs, reason: lost })
    else this.#operations.events.emitter('lease.released')?.({ name, key, fence, heldMs, reason: asked })
  }

  #lossError(reason: HoldfastError): LeaseLostError {
    return new LeaseLostError(this.name, this.fence, reason)
  }
}
