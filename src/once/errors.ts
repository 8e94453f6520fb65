import { HoldfastError, type RecordedError } from '../base/index.js'

/** The key was used before, or is in use, for something else: its fingerprint is another. */
export class FingerprintMismatchError extends HoldfastError {
  readonly key: string

  constructor(key: string) {
    super(`"${key}" was used before with another fingerprint`, {
      code: 'FINGERPRINT_MISMATCH',
      retryable: false,
      hint: 'One key stands for one payload: use another key for another payload.',
    })
    this.key = key
  }
}

/** The first run of the key failed, and its failure was recorded as the answer (`failures: 'record'`). */
export class RecordedFailureError extends HoldfastError {
  readonly key: string
  /** What the first run threw. */
  readonly failure: RecordedFailure

  constructor(key: string, failure: RecordedFailure) {
    super(`The first run of "${key}" failed: ${failure.message}`, {
      code: 'ONCE_FAILED',
      retryable: false,
      hint: 'once.forget(key) lets it be run again.',
    })
    this.key = key
    this.failure = failure
  }
}

/** What is kept of an error that a run threw. */
export type RecordedFailure = Omit<RecordedError, 'stack'>

/** The run may have been taken over by another, and no answer of it was recorded; the reason of its signal. */
export class OnceLostError extends HoldfastError {
  readonly key: string
  readonly fence: number

  constructor(key: string, fence: number, cause: Error) {
    super(`The run of "${key}" was lost: ${cause.message}`, {
      code: 'ONCE_LOST',
      retryable: true,
      hint: 'Stop the work. What it did by `tx` is rolled back if another run has taken over; run the key again for its answer.',
      cause,
    })
    this.key = key
    this.fence = fence
  }
}
