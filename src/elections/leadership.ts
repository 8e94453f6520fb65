import { type HeldName, HeldWork } from '../postgres/index.js'
import { type StepDownReason, SteppedDownError } from './errors.js'

/**
 * One term, as the leader has it: one unbroken leadership, from election to loss. Its signal also aborts when the leader is to step
 * down; then the reason is a `SteppedDownError` or a `ReleaseRequestedError`.
 *
 * @example
 * holdfast.elections.campaign('indexer', async ({ signal, term }) => {
 *   while (!signal.aborted) await indexNext({ signal, term })
 * })
 */
export class Leadership extends HeldWork {
  /** The name of the election. */
  readonly name: string
  /** The number of this term: the fence of its grant, larger than that of every term before, also across crashes. */
  readonly term: number

  /** Asks this leader to step down: its signal aborts. The next one leads when the function has returned. */
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
