import { type HoldfastError, UsageError } from '../base/index.js'
import { type CallerTransaction, executorOf, type Statement } from '../postgres/index.js'
import { LockLostError, ReleaseRequestedError } from './errors.js'
import type { Hold, HoldWatcher } from './hold.js'
import type { Mode } from './turns.js'

/**
 * A lock that is held, on one name or on several together.
 *
 * @example
 * await using lock = await holdfast.locks.acquire('city:london')
 * for (const batch of batches) {
 *   lock.signal.throwIfAborted()
 *   await assign(batch, lock.fence)
 * }
 */
export class Lock {
  /** The names, in the order in which they were asked for. */
  readonly names: readonly string[]
  readonly mode: Mode
  /** Larger than that of every earlier holder of any of the names. */
  readonly fence: number
  readonly #holds: readonly Hold[]
  readonly #guard: Statement
  readonly #giveBack: (hold: Hold) => Promise<void>
  readonly #watcher: HoldWatcher = {
    lost: (reason) => {
      if (!this.#released) this.#abort(new LockLostError(this.name, this.fence, reason))
    },
    releaseRequested: () => this.#abort(new ReleaseRequestedError(this.name)),
  }
  #controller: AbortController | undefined
  #abortReason: HoldfastError | undefined
  #released: Promise<void> | undefined

  /** @internal */
  constructor(
    names: readonly string[],
    holds: readonly Hold[],
    guard: Statement,
    giveBack: (hold: Hold) => Promise<void>,
  ) {
    this.names = names
    this.#holds = holds
    this.#guard = guard
    this.#giveBack = giveBack
    this.mode = holds[0]!.mode
    this.fence = Math.max(...holds.map((hold) => hold.fence))
    for (const hold of holds) hold.watchers.add(this.#watcher)
  }

  get name(): string {
    return this.names.join(', ')
  }

  /** The 64-bit keys that are locked, in decimal. */
  get keys(): readonly string[] {
    return this.#holds.map((hold) => hold.key.key)
  }

  /**
   * Whether the lock may be believed in at this very moment. True to the clock even right after the process was
   * frozen or its event loop blocked, before any timer or socket could speak.
   */
  get held(): boolean {
    return this.#released === undefined && this.#lossReason() === undefined
  }

  /**
   * Aborts with a `LockLostError` before anybody else can be granted the name, or with a `ReleaseRequestedError`
   * when an operator asks the holder to let go.
   */
  get signal(): AbortSignal {
    // Made when first asked for: most locks are held for a moment and nobody looks.
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#abortReason) this.#controller.abort(this.#abortReason)
    }
    // Notices a deadline that has passed while nothing could run.
    const reason = this.#lossReason()
    if (reason) this.#abort(reason)
    return this.#controller.signal
  }

  /**
   * Refuses (`StaleFenceError`) the writes of this transaction if somebody else may have taken over: call it in the
   * transaction, before its commit. Of two holders' guarded transactions, the later holder's is never overwritten.
   * For exclusive locks: readers hold together, so none of them is later than the others.
   *
   * @example
   * await lock.guard(client)
   * await client.query('update report set …')
   */
  async guard(tx: CallerTransaction): Promise<void> {
    if (this.mode === 'shared') throw new UsageError(`Expected an exclusive lock to guard with, got a shared one`)
    if (this.#released) throw new UsageError(`Expected a lock that is held to guard with, got one that was released`)
    this.throwIfLost()
    const executor = executorOf(tx)
    for (const hold of this.#holds) {
      await executor.query(this.#guard.text, [hold.key.key, this.fence, hold.turns.session.number])
    }
  }

  /** Gives the names back. Resolves when the server has done so; asking again, or after a loss, is harmless. */
  release(): Promise<void> {
    if (this.#released) return this.#released
    // A loss before the release is one for good; what happens to the session afterwards is none.
    const reason = this.#lossReason()
    if (reason) this.#abort(reason)
    this.#released = this.#release()
    return this.#released
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  /** @internal Throws when the lock has been lost. */
  throwIfLost(): void {
    const reason = this.#lossReason()
    if (reason) throw reason
  }

  #lossReason(): LockLostError | undefined {
    if (this.#abortReason instanceof LockLostError) return this.#abortReason
    if (this.#released) return undefined
    for (const hold of this.#holds) {
      const reason = hold.lossReason
      if (reason) return new LockLostError(this.name, this.fence, reason)
    }
    return undefined
  }

  #abort(reason: HoldfastError): void {
    if (this.#abortReason instanceof LockLostError) return
    this.#abortReason = reason
    this.#controller?.abort(reason)
  }

  async #release(): Promise<void> {
    for (const hold of this.#holds) hold.watchers.delete(this.#watcher)
    await Promise.all(this.#holds.map((hold) => this.#giveBack(hold)))
  }
}
