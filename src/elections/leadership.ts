import { whenAborted } from '../base/index.js'
import type { CallerTransaction, Kept } from '../postgres/index.js'
import { SteppedDownError, type SteppingDown } from './errors.js'

/**
 * One term, as the leader has it: one unbroken leadership, from election to loss.
 *
 * @example
 * holdfast.elections.campaign('indexer', async ({ signal, term }) => {
 *   while (!signal.aborted) await indexNext({ signal, term })
 * })
 */
export class Leadership {
  /** The name of the election. */
  readonly name: string
  /** The number of this term: the fence of its grant, larger than that of every term before, also across crashes. */
  readonly term: number
  readonly #kept: Kept
  readonly #controller = new AbortController()
  readonly #forget: () => void

  /** Asks this leader to step down: its signal aborts. The next one leads when the function has returned. */
  readonly stepDown = (): void => this.askToStepDown('asked')

  /**
   * Refuses (`StaleFenceError`) the writes of this transaction if another term may have begun: call it in the
   * transaction, before its commit.
   */
  readonly guard = (tx: CallerTransaction): Promise<void> => this.#kept.guard(tx)

  /** @internal */
  constructor(name: string, kept: Kept) {
    this.name = name
    this.term = kept.fence
    this.#kept = kept
    this.#forget = whenAborted(kept.signal, (reason) => this.#controller.abort(reason))
  }

  /** Whether this instance leads at this very moment, also right after it was frozen or its event loop blocked. */
  get held(): boolean {
    return this.#kept.held
  }

  /**
   * Aborts when the term is over, before another one can begin; or when this leader is to step down. The reason says
   * which: a `LockLostError` or `LeaseLostError`; or a `SteppedDownError` or `ReleaseRequestedError`.
   */
  get signal(): AbortSignal {
    // Notices a deadline that has passed while nothing could run.
    if (!this.#kept.held && this.#kept.signal.aborted) this.#controller.abort(this.#kept.signal.reason)
    return this.#controller.signal
  }

  /** @internal */
  askToStepDown(because: SteppingDown): void {
    this.#controller.abort(new SteppedDownError(this.name, this.term, because))
  }

  /** @internal The function has ended: gives the name back. */
  async end(): Promise<void> {
    this.#forget()
    await this.#kept.release()
  }
}
