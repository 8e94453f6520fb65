import { HoldfastError, type RecordedError } from '../base/index.js'

export { clip, type RecordedError, toRecordedError } from '../base/index.js'

/** Abort reason of the signal if the job was cancelled. */
export class JobCancelledError extends HoldfastError {
  readonly id: number

  constructor(id: number, reason: string) {
    super(reason, {
      code: 'JOB_CANCELLED',
      retryable: false,
      hint: 'Stop the work and throw. The job then ends as cancelled.',
    })
    this.id = id
  }
}

/**
 * Abort reason of the signal if the attempt exceeds its `timeout`. The attempt fails, regardless of the value that its
 * handler returns.
 */
export class JobTimeoutError extends HoldfastError {
  readonly id: number

  constructor(id: number, timeout: string) {
    super(`The attempt took longer than ${timeout}`, {
      code: 'JOB_TIMEOUT',
      retryable: true,
      hint: 'Stop the work. If attempts usually take this long, raise the timeout of the definition.',
    })
    this.id = id
  }
}

/** Abort reason of the signal if another worker may own the job. The outcome of this attempt is not recorded. */
export class JobLostError extends HoldfastError {
  readonly id: number
  readonly fence: number

  constructor(id: number, fence: number, cause?: Error) {
    super(`The job ${id} was lost${cause ? `: ${cause.message}` : ' to another worker'}`, {
      code: 'JOB_LOST',
      retryable: true,
      hint: 'Stop the work. Its writes through `tx` are rolled back, and another worker runs the job.',
      cause,
    })
    this.id = id
    this.fence = fence
  }
}

/**
 * Abort reason of the signal if the worker is closing and its time limit has passed. The job is returned to its queue.
 */
export class DrainingError extends HoldfastError {
  constructor() {
    super('The worker is closing', {
      code: 'DRAINING',
      retryable: true,
      hint: 'Stop the work and throw. Another worker then runs the job, and this attempt does not count.',
    })
  }
}

/** Error that a handler throws to fail the attempt and bury the job without further attempts. */
export class NonRetryableError extends HoldfastError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, { code: 'NON_RETRYABLE', retryable: false, cause: options.cause })
  }
}

/** Thrown if the input does not match the definition's schema. */
export class InvalidInputError extends HoldfastError {
  readonly kind: string
  /** Issues that the schema found. */
  readonly issues: readonly { readonly message: string; readonly path: string }[]

  constructor(kind: string, issues: readonly { readonly message: string; readonly path: string }[]) {
    const listed = issues.map(({ message, path }) => (path ? `${path}: ${message}` : message)).join('; ')
    super(`The input of "${kind}" does not fit its schema: ${listed}`, { code: 'INVALID_INPUT', retryable: false })
    this.kind = kind
    this.issues = issues
  }
}

/** Thrown if an input or a result is too large. */
export class PayloadTooLargeError extends HoldfastError {
  readonly bytes: number
  readonly limit: number

  constructor(what: 'an input' | 'a result', bytes: number, limit: number) {
    super(`Expected ${what} of at most ${limit} bytes of JSON, got ${bytes}`, {
      code: 'PAYLOAD_TOO_LARGE',
      retryable: false,
      hint: 'Store large data elsewhere, such as in a table of your own, and put a reference to it into the job.',
    })
    this.bytes = bytes
    this.limit = limit
  }
}

/** Thrown by `jobs.result` if the job was cancelled, discarded or buried. */
export class JobFailedError extends HoldfastError {
  readonly id: number
  readonly state: 'cancelled' | 'discarded' | 'buried'
  readonly failure: RecordedError | undefined

  constructor(id: number, state: 'cancelled' | 'discarded' | 'buried', failure: RecordedError | undefined) {
    super(`The job ${id} was ${state}${failure ? `: ${failure.message}` : ''}`, {
      code: 'JOB_FAILED',
      retryable: false,
      hint: 'jobs.retry(id) runs the job again.',
    })
    this.id = id
    this.state = state
    this.failure = failure
  }
}

/** Thrown if the tables of the other library are not in this database, or have an unknown version. */
export class UnknownSourceError extends HoldfastError {
  constructor(message: string, hint: string) {
    super(message, { code: 'UNKNOWN_SOURCE', retryable: false, hint })
  }
}
