import { type HeldName, HeldWork } from '../postgres/index.js'
import { type StepDownReason, SteppedDownError } from './errors.js'

/**
 * Handle to one term, which is one uninterrupted period of leadership. The handle's signal also aborts when the leader
 * must step down. In that case the reason is a `SteppedDownError` or a `ReleaseRequestedError`.
 *
 * @example
 * holdfast.elections.campaign('indexer', async ({ signal, term }) => {
 *   while (!signal.aborted) await indexNext({ signal, term })
 * })
 */
export class Leadership extends HeldWork {
  /** Name of the election. */
  readonly name: string
  /**
   * Number of this term, which is its grant's fencing token. A term's number is larger than the number of every
   * earlier term.
   */
  readonly term: number

  /** Aborts this leader's signal. The next leader's term starts after the function has returned. */
  readonly stepDown = (): void => this.requestStepDown('asked')

  /** @internal */
  constructor(name: string, heldName: HeldName) {
    super(heldName)
    this.name = name
    this.term = heldName.fence
  }

  /** @internal */
  requestStepDown(reason: StepDownReason): void {
    this.letGo(new SteppedDownError(this.name, this.term, reason))
  }
}
