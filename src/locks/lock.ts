import { type Events, Handle, type HoldfastError, UsageError } from '../base/index.js'
import { type CallerTransaction, executorOf, type Statement } from '../postgres/index.js'
import { LockLostError, ReleaseRequestedError } from './errors.js'
import type { Hold, HoldWatcher } from './hold.js'
import type { LockMode } from './lock-batcher.js'

/**
 * Handle to a lock on one or more names.
 *
 * @example
 * await using lock = await holdfast.locks.acquire('city:london')
 * for (const batch of batches) {
 *   lock.signal.throwIfAborted()
 *   await assign(batch, lock.fence)
 * }
 */
export class Lock extends Handle {
  /** Names, in the order in which they were requested. */
  readonly names: readonly string[]
  readonly mode: LockMode
  /** Fencing token, larger than the fencing token of every earlier holder of any of the names. */
  readonly fence: number
  readonly #holds: readonly Hold[]
  readonly #guard: Statement
  readonly #giveBack: (hold: Hold) => Promise<void>
  readonly #events: Events
  readonly #watcher: HoldWatcher = {
    lost: (reason) => this.lose(this.#lossError(reason)),
    releaseRequested: (reason) => this.requestRelease(reason ?? new ReleaseRequestedError(this.name)),
  }

  /** @internal */
  constructor(
    names: readonly string[],
    holds: readonly Hold[],
    guard: Statement,
    giveBack: (hold: Hold) => Promise<void>,
    events: Events,
  ) {
    super()
    this.names = names
    this.#holds = holds
    this.#guard = guard
    this.#giveBack = giveBack
    this.#events = events
    this.mode = holds[0]!.mode
    this.fence = Math.max(...holds.map((hold) => hold.fence))
    for (const hold of holds) hold.watchers.add(this.#watcher)
  }

  get name(): string {
    return this.names.join(', ')
  }

  /** 64-bit keys of the locked names, in decimal. */
  get keys(): readonly string[] {
    return this.#holds.map((hold) => hold.key.key)
  }

  /**
   * Makes the transaction fail with a `StaleFenceError` if another holder may have acquired the lock. Call `guard`
   * inside the transaction, before the commit. A guarded transaction never overwrites a later holder's writes.
   * Requires an exclusive lock. Throws a `LockLostError` if this process already knows that the lock was lost.
   *
   * @example
   * await lock.guard(client)
   * await client.query('update report set …')
   */
  async guard(tx: CallerTransaction): Promise<void> {
    if (this.mode === 'shared')
      throw new UsageError(`Expected guard to be called on an exclusive lock, got a shared lock`)
    if (this.isReleased) throw new UsageError(`Expected guard to be called on a held lock, got a released lock`)
    this.throwIfLost()
    const executor = executorOf(tx)
    for (const hold of this.#holds) {
      await executor.query(this.#guard.text, [hold.key.key, this.fence, hold.batcher.session.number])
    }
  }

  /** @internal */
  protected currentLoss(): LockLostError | undefined {
    for (const hold of this.#holds) {
      const reason = hold.lossReason
      if (reason) return this.#lossError(reason)
    }
    return undefined
  }

  /** @internal */
  protected async releaseOnServer(): Promise<void> {
    for (const hold of this.#holds) hold.watchers.delete(this.#watcher)
    await Promise.all(this.#holds.map((hold) => this.#giveBack(hold)))
  }

  /** @internal */
  protected reportEnd(heldMs: number, lost: HoldfastError | undefined, reason: Error | undefined): void {
    const { names, keys, mode, fence } = this
    if (lost) this.#events.emitter('lock.lost')?.({ names, keys, mode, fence, heldMs, reason: lost })
    else this.#events.emitter('lock.released')?.({ names, keys, mode, fence, heldMs, reason })
  }

  #lossError(reason: HoldfastError): LockLostError {
    return new LockLostError(this.name, this.fence, reason)
  }
}
