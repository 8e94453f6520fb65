import { HoldfastError } from '../base/index.js'

/** Why a leader was asked to step down. */
export type StepDownReason = 'asked' | 'preferred' | 'not-eligible' | 'closing'

const reasonTexts: Record<StepDownReason, string> = {
  asked: 'it was asked to',
  preferred: 'a preferred instance is there to lead',
  'not-eligible': 'this instance says that it is not eligible',
  closing: 'its campaign is closing',
}

/** The reason of a leader's signal when it is to step down. It still leads: the next one leads when it has finished. */
export class SteppedDownError extends HoldfastError {
  readonly election: string
  readonly term: number
  readonly reason: StepDownReason

  constructor(election: string, term: number, reason: StepDownReason) {
    super(`The leader of "${election}" steps down: ${reasonTexts[reason]}`, {
      code: 'STEPPED_DOWN',
      retryable: true,
      hint: 'Finish or stop, then return: the next leader waits for it.',
    })
    this.election = election
    this.term = term
    this.reason = reason
  }
}
