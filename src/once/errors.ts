import { HoldfastError, type RecordedError } from '../base/index.js'

/** Thrown if the key has already been used, or is in use, with a different fingerprint. */
export class FingerprintMismatchError extends HoldfastError {
  readonly key: string

  constructor(key: string) {
    super(`The key "${key}" has already been used with a different fingerprint`, {
      code: 'FINGERPRINT_MISMATCH',
      retryable: false,
      hint: 'Use a different key for each payload.',
    })
    this.key = key
  }
}

/** Thrown if the key's first run failed and its failure was recorded as the result (`failures: 'record'`). */
export class RecordedFailureError extends HoldfastError {
  readonly key: string
  /** Error that the first run threw. */
  readonly failure: RecordedFailure

  constructor(key: string, failure: RecordedFailure) {
    super(`The first run of "${key}" failed: ${failure.message}`, {
      code: 'ONCE_FAILED',
      retryable: false,
      hint: 'Call once.forget(key) so that the next call runs the work again.',
    })
    this.key = key
    this.failure = failure
  }
}

/** Part of a run's error that is recorded in the database. */
export type RecordedFailure = Omit<RecordedError, 'stack'>

/**
 * Thrown if a run was lost: another run may have taken over the key, and the lost run has recorded no result. The run's
 * signal is aborted with the same error.
 */
export class OnceLostError extends HoldfastError {
  readonly key: string
  readonly fence: number

  constructor(key: string, fence: number, cause: Error) {
    super(`The run of "${key}" was lost: ${cause.message}`, {
      code: 'ONCE_LOST',
      retryable: true,
      hint: 'Stop the work. If another run has taken over, the writes through `tx` are rolled back. To get the result, call once.run again with the same key.',
      cause,
    })
    this.key = key
    this.fence = fence
  }
}
