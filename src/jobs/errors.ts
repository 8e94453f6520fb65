import { HoldfastError, type RecordedError } from '../base/index.js'

export { clip, type RecordedError, toRecordedError } from '../base/index.js'

/** The reason of a job's signal: somebody has cancelled it. */
export class JobCancelledError extends HoldfastError {
  readonly id: number

  constructor(id: number, reason: string) {
    super(reason, {
      code: 'JOB_CANCELLED',
      retryable: false,
      hint: 'Stop the work and throw; the job is then recorded as cancelled.',
    })
    this.id = id
  }
}

/** The reason of a job's signal: the attempt took longer than its `timeout`. It has failed, whatever it returns. */
export class JobTimeoutError extends HoldfastError {
  readonly id: number

  constructor(id: number, timeout: string) {
    super(`The attempt took longer than ${timeout}`, {
      code: 'JOB_TIMEOUT',
      retryable: true,
      hint: 'Stop the work. Give the definition a longer timeout if this is its usual time.',
    })
    this.id = id
  }
}

/** The reason of a job's signal: another worker may have taken the job over; nothing of this attempt is recorded. */
export class JobLostError extends HoldfastError {
  readonly id: number
  readonly fence: number

  constructor(id: number, fence: number, cause?: Error) {
    super(`The job ${id} was lost${cause ? `: ${cause.message}` : ' to another worker'}`, {
      code: 'JOB_LOST',
      retryable: true,
      hint: 'Stop the work. What it did by `tx` is rolled back; another worker runs the job.',
      cause,
    })
    this.id = id
    this.fence = fence
  }
}

/** The reason of a job's signal: its worker closes, and the time for coming to an end is over. The job is given back. */
export class DrainingError extends HoldfastError {
  constructor() {
    super('The worker is closing', {
      code: 'DRAINING',
      retryable: true,
      hint: 'Stop the work and throw; another worker runs the job, and this attempt does not count.',
    })
  }
}

/** Thrown by a handler: the attempt failed, and another would fail alike, so the job is buried. */
export class NonRetryableError extends HoldfastError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, { code: 'NON_RETRYABLE', retryable: false, cause: options.cause })
  }
}

/** The input does not fit the schema of the definition. */
export class InvalidInputError extends HoldfastError {
  readonly kind: string
  /** What the schema found, as it says it. */
  readonly issues: readonly { readonly message: string; readonly path: string }[]

  constructor(kind: string, issues: readonly { readonly message: string; readonly path: string }[]) {
    const said = issues.map(({ message, path }) => (path ? `${path}: ${message}` : message)).join('; ')
    super(`The input of "${kind}" does not fit its schema: ${said}`, { code: 'INVALID_INPUT', retryable: false })
    this.kind = kind
    this.issues = issues
  }
}

/** An input, or a result, is larger than a job may carry. */
export class PayloadTooLargeError extends HoldfastError {
  readonly bytes: number
  readonly limit: number

  constructor(what: 'an input' | 'a result', bytes: number, limit: number) {
    super(`Expected ${what} of at most ${limit} bytes of JSON, got ${bytes}`, {
      code: 'PAYLOAD_TOO_LARGE',
      retryable: false,
      hint: 'Keep large data in a table or a store of its own, and give the job its address.',
    })
    this.bytes = bytes
    this.limit = limit
  }
}

/** `result` was asked for of a job that ended without one: it was cancelled, discarded or buried. */
export class JobFailedError extends HoldfastError {
  readonly id: number
  readonly state: 'cancelled' | 'discarded' | 'buried'
  readonly failure: RecordedError | undefined

  constructor(id: number, state: 'cancelled' | 'discarded' | 'buried', failure: RecordedError | undefined) {
    super(`The job ${id} was ${state}${failure ? `: ${failure.message}` : ''}`, {
      code: 'JOB_FAILED',
      retryable: false,
      hint: 'jobs.retry(id) lets it run again.',
    })
    this.id = id
    this.state = state
    this.failure = failure
  }
}

/**
 * A worker cannot begin, because another instance serves one of its queues and claims jobs in the other way. It begins by
 * itself when nobody does any more.
 */
export class MixedClaimsError extends HoldfastError {
  readonly queue: string
  readonly instance: string

  constructor(way: 'rows' | 'advisory', queue: string, instance: string) {
    const other = way === 'rows' ? 'advisory' : 'rows'
    super(
      `Expected all workers of the queue "${queue}" to claim by ${way}, but those of the instance ${instance} claim by ${other}`,
      {
        code: 'MIXED_CLAIMS',
        retryable: true,
        hint: `The two ways do not see each other's claims. Close the workers there, or open with jobs: { claims: '${other}' }. This worker tries again until it may begin.`,
      },
    )
    this.queue = queue
    this.instance = instance
  }
}

/** Jobs cannot be imported from there: the tables of the other library are not in this database, or not as they are known. */
export class UnknownSourceError extends HoldfastError {
  constructor(message: string, hint: string) {
    super(message, { code: 'UNKNOWN_SOURCE', retryable: false, hint })
  }
}
