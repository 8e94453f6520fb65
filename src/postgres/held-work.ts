import { whenAborted } from '../base/index.js'
import type { CallerTransaction } from './caller.js'
import type { HeldName } from './name-locker.js'

/**
 * The leadership during a term, or one of a share's resources. Only this instance holds it while your function is
 * running.
 */
export abstract class HeldWork {
  readonly #name: HeldName
  readonly #controller = new AbortController()
  readonly #forgets: readonly (() => void)[]

  /**
   * Throws a `StaleFenceError` if another instance may have taken over, so that your transaction rolls back. Call `guard` in the
   * transaction, before the commit.
   */
  readonly guard = (tx: CallerTransaction): Promise<void> => this.#name.guard(tx)

  /** @internal */
  constructor(name: HeldName, ...signals: readonly (AbortSignal | undefined)[]) {
    this.#name = name
    this.#forgets = [name.signal, ...signals].map((signal) => whenAborted(signal, (reason) => this.letGo(reason)))
  }

  /**
   * Whether this instance still holds the leadership or resource. The value is correct even immediately after the process was frozen or its
   * event loop was blocked.
   */
  get held(): boolean {
    return this.#name.held
  }

  /**
   * Aborts when the leadership or resource is lost, before another instance can get it. Also aborts when a release is requested. After a
   * loss, the reason is a `LockLostError` or a `LeaseLostError`.
   */
  get signal(): AbortSignal {
    // Detects a deadline that passed while the process was blocked.
    if (!this.#name.held && this.#name.signal.aborted) this.letGo(this.#name.signal.reason)
    return this.#controller.signal
  }

  /** @internal */
  letGo(reason: unknown): void {
    this.#controller.abort(reason)
  }

  /** @internal Releases the name after the function has ended. */
  async end(): Promise<void> {
    for (const forget of this.#forgets) forget()
    await this.#name.release()
  }
}
