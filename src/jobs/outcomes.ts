import { DrainingError, isInstance, messageOf } from '../base/index.js'
import type { ClaimedJob } from './claims.js'
import type { Ending } from './endings.js'
import {
  DuplicateStepError,
  InvalidInputError,
  JobCancelledError,
  JobSuspendedError,
  JobTimeoutError,
  NonRetryableError,
  type RecordedError,
  StepLimitError,
  toRecordedError,
} from './errors.js'
import { JobOutcome } from './outcome.js'
import { writePayload } from './payload.js'
import { maxAttemptsOf, pauseAfter } from './policy.js'
import type { Run } from './run.js'

/** Errors that another attempt would throw again. */
const finalErrors = [NonRetryableError, InvalidInputError, DuplicateStepError, StepLimitError]

/** The handler returned a result. */
export interface DoneOutcome {
  readonly event: 'job.done'
  readonly commits: true
  readonly ending?: undefined
  /** Result as JSON. Undefined if the handler returned nothing. */
  readonly result: string | undefined
}

/** The attempt failed. */
export interface FailedOutcome {
  readonly event: 'job.failed'
  readonly commits: false
  readonly state: 'retried' | 'buried'
  readonly ending: Ending
  /** Value that the handler threw. */
  readonly error: unknown
}

/** The attempt ended without a result and without a failure. */
export interface EndedOutcome {
  readonly event: 'job.ended'
  readonly commits: boolean
  readonly state: 'retried' | 'cancelled' | 'discarded' | 'returned' | 'lost'
  /** Undefined if another worker owns the job, because then there is nothing to record. */
  readonly ending: Ending | undefined
}

/** The handler sleeps or waits for an event. Its transaction is rolled back, because the handler starts again. */
export interface SuspendedOutcome {
  readonly event: 'job.ended'
  readonly commits: false
  readonly state: 'suspended'
  readonly ending?: undefined
  /** Name of the step that waits. */
  readonly step: string
  readonly leftMs: number
}

/**
 * Outcome of an attempt that has not been recorded yet. `event` is the event to emit. `commits` is true if the handler's
 * transaction commits with this outcome. Otherwise the transaction is rolled back.
 */
export type Outcome = DoneOutcome | FailedOutcome | EndedOutcome | SuspendedOutcome

/** Decides the outcome of an attempt whose handler has returned a value. */
export function outcomeOf(run: Run, value: unknown): Outcome {
  const { job, stopReason } = run
  if (stopReason instanceof JobTimeoutError || stopReason instanceof JobSuspendedError)
    return failureOf(run, stopReason)
  if (JobOutcome.is(value)) {
    const { state, reason, delayMs } = value
    const error = reason ? { name: 'JobOutcome', message: reason } : undefined
    return { event: 'job.ended', commits: true, state, ending: { ...endingOf(job, state, error), delayMs } }
  }
  try {
    return { event: 'job.done', commits: true, result: writePayload(value, 'a result') }
  } catch (error) {
    // The error is not retryable, because another attempt would repeat the work and return the same value.
    return failureOf(run, new NonRetryableError(messageOf(error), { cause: error }))
  }
}

/** Decides the outcome of an attempt that has failed or was stopped, even if its handler was not called. */
export function failureOf(run: Run, error: unknown): Outcome {
  const { job, stopReason } = run
  if (run.isLost) return lost
  if (stopReason instanceof JobCancelledError) {
    const ending = endingOf(job, 'cancelled', toRecordedError(stopReason))
    return { event: 'job.ended', commits: false, state: 'cancelled', ending }
  }
  if (stopReason instanceof DrainingError) return returnOf(job)
  if (stopReason instanceof JobSuspendedError) {
    const { step, leftMs } = stopReason
    return { event: 'job.ended', commits: false, state: 'suspended', step, leftMs }
  }
  const { failed } = job
  const wouldFailAgain = finalErrors.some((type) => isInstance(error, type))
  const isFinal = wouldFailAgain || failed + 1 >= maxAttemptsOf(job)
  const state = isFinal ? 'buried' : 'retried'
  const delayMs = isFinal ? 0 : Math.ceil(pauseAfter(job, failed, error))
  const ending = { ...endingOf(job, state, toRecordedError(error)), delayMs, failed: true }
  return { event: 'job.failed', commits: false, state, ending, error }
}

/** Returns the outcome of an attempt whose job is returned to its queue. The attempt is not counted. */
export function returnOf(job: ClaimedJob): EndedOutcome {
  return { event: 'job.ended', commits: false, state: 'returned', ending: endingOf(job, 'returned', undefined) }
}

/** Outcome of an attempt if another worker owns its job. */
export const lost: EndedOutcome = { event: 'job.ended', commits: false, state: 'lost', ending: undefined }

function endingOf({ id, claim }: ClaimedJob, state: Ending['state'], error: RecordedError | undefined): Ending {
  return { id, claim, state, error, delayMs: 0, failed: false }
}
