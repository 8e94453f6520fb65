import { HoldfastError } from '../base/index.js'

/** Reason why a leader must step down. */
export type StepDownReason = 'asked' | 'preferred' | 'not-eligible' | 'closing'

const reasonTexts: Record<StepDownReason, string> = {
  asked: 'stepDown was called',
  preferred: 'a preferred candidate is present',
  'not-eligible': 'its `eligible` function returned false',
  closing: 'its campaign is closing',
}

/**
 * Abort reason of a leader's signal when the leader must step down. The instance remains the leader until its function
 * has finished.
 */
export class SteppedDownError extends HoldfastError {
  readonly election: string
  readonly term: number
  readonly reason: StepDownReason

  constructor(election: string, term: number, reason: StepDownReason) {
    super(`The leader of "${election}" must step down: ${reasonTexts[reason]}`, {
      code: 'STEPPED_DOWN',
      retryable: true,
      hint: 'Finish or stop the work, then return. The next leader starts after your function has returned.',
    })
    this.election = election
    this.term = term
    this.reason = reason
  }
}
