import { whenAborted } from '../base/index.js'
import type { CallerTransaction } from './caller.js'
import type { HeldName } from './name-locker.js'

/** Something that only this instance has while its function works on it: the leadership of a term, or a resource of a share. */
export abstract class HeldWork {
  readonly #kept: HeldName
  readonly #controller = new AbortController()
  readonly #forgets: readonly (() => void)[]

  /**
   * Refuses (`StaleFenceError`) the writes of this transaction if another instance may have taken over: call it in the
   * transaction, before its commit.
   */
  readonly guard = (tx: CallerTransaction): Promise<void> => this.#kept.guard(tx)

  /** @internal */
  constructor(kept: HeldName, ...signals: readonly (AbortSignal | undefined)[]) {
    this.#kept = kept
    this.#forgets = [kept.signal, ...signals].map((signal) => whenAborted(signal, (reason) => this.letGo(reason)))
  }

  /** Whether this instance has it at this very moment, also right after the process was frozen or its event loop blocked. */
  get held(): boolean {
    return this.#kept.held
  }

  /**
   * Aborts when it is lost, before another instance can have it, or when this instance is asked to let go. The reason says which:
   * a loss is a `LockLostError` or a `LeaseLostError`.
   */
  get signal(): AbortSignal {
    // Notices a deadline that has passed while nothing could run.
    if (!this.#kept.held && this.#kept.signal.aborted) this.letGo(this.#kept.signal.reason)
    return this.#controller.signal
  }

  /** @internal */
  letGo(reason: unknown): void {
    this.#controller.abort(reason)
  }

  /** @internal The function has ended: gives back the name. */
  async end(): Promise<void> {
    for (const forget of this.#forgets) forget()
    await this.#kept.release()
  }
}
