import { didYouMean, formatDuration, HoldfastError, type RecordedError } from '../base/index.js'

export { clip, type RecordedError, toRecordedError } from '../base/index.js'

/** Abort reason of the handler's signal if the job was cancelled. */
export class JobCancelledError extends HoldfastError {
  readonly id: number

  constructor(id: number, reason: string) {
    super(reason, {
      code: 'JOB_CANCELLED',
      retryable: false,
      hint: 'Stop the work and throw an error. The job then ends as cancelled.',
    })
    this.id = id
  }
}

/**
 * Abort reason of the handler's signal if the attempt exceeds its `timeout`. The attempt fails, even if the handler
 * returns a result later.
 */
export class JobTimeoutError extends HoldfastError {
  readonly id: number

  constructor(id: number, timeout: string) {
    super(`The attempt exceeded its timeout of ${timeout}`, {
      code: 'JOB_TIMEOUT',
      retryable: true,
      hint: 'Stop the work. If attempts usually take this long, increase the timeout in the job definition.',
    })
    this.id = id
  }
}

/** Abort reason of the handler's signal if another worker may own the job. This attempt's outcome is not recorded. */
export class JobLostError extends HoldfastError {
  readonly id: number
  readonly fence: number

  constructor(id: number, fence: number, cause?: Error) {
    super(`Job ${id} was lost${cause ? `: ${cause.message}` : ' to another worker'}`, {
      code: 'JOB_LOST',
      retryable: true,
      hint: 'Stop the work. Writes through `tx` are rolled back, and another worker runs the job.',
      cause,
    })
    this.id = id
    this.fence = fence
  }
}

/**
 * Thrown by `job.sleep` and `job.event` to end the attempt until the job is resumed. Also the abort reason of the
 * handler's signal. The attempt does not fail, even if the handler catches this error.
 */
export class JobSuspendedError extends HoldfastError {
  readonly id: number
  /** Name of the step that waits. */
  readonly step: string
  /** Maximum time until the job is resumed. */
  readonly leftMs: number

  constructor(id: number, step: string, leftMs: number) {
    super(`Job ${id} is suspended at the step "${step}" for at most ${formatDuration(leftMs)}`, {
      code: 'JOB_SUSPENDED',
      retryable: false,
      hint: 'Do not catch this error in the handler. The handler starts again when the job is resumed.',
    })
    this.id = id
    this.step = step
    this.leftMs = leftMs
  }
}

/** Thrown if a handler uses the name of a step twice in one attempt. The job is buried. */
export class DuplicateStepError extends HoldfastError {
  readonly id: number
  readonly step: string

  constructor(id: number, step: string) {
    super(`Job ${id} has two steps with the name "${step}"`, {
      code: 'DUPLICATE_STEP',
      retryable: false,
      hint: 'Give each step its own name. In a loop, add a number to the name. For a sleep or an event, set the `step` option.',
    })
    this.id = id
    this.step = step
  }
}

/** Thrown if a job has too many steps or events, or if their data is too large. The job is buried. */
export class StepLimitError extends HoldfastError {
  constructor(message: string) {
    super(message, {
      code: 'STEP_LIMIT',
      retryable: false,
      hint: 'Use job.cursor for a long loop, enqueue a job for each part of the work, and store large results in a table of your own.',
    })
  }
}

/**
 * Error that fails an attempt whose thread has ended, for example because it called `process.exit`, because of an uncaught error, or because it had no
 * memory left. The worker continues, and starts a new thread for the next job.
 */
export class ThreadEndedError extends HoldfastError {
  readonly kind: string

  constructor(kind: string, reason: string, cause?: unknown) {
    super(`The thread of "${kind}" ended ${reason}`, {
      code: 'THREAD_ENDED',
      retryable: true,
      hint: 'Fix the handler so that its thread does not end. If it needs more memory, increase `threads.maxHeapMb`.',
      cause,
    })
    this.kind = kind
  }
}

/** Error that fails an attempt whose thread cannot import the module with the handler. */
export class ThreadModuleError extends HoldfastError {
  /** URL of the module. */
  readonly module: string

  constructor(module: string, problem: string, stack?: string) {
    super(`The module ${module} ${problem}`, {
      code: 'THREAD_MODULE',
      retryable: true,
      hint: 'Fix the module, or the options `threads.module` and `threads.export`.',
    })
    this.module = module
    if (stack !== undefined) this.stack = `${this.name}: ${this.message}\n${stack}`
  }
}

/** Thrown in a thread if a handler reads a member of its context that threads do not have. The job is buried. */
export class NotInThreadError extends HoldfastError {
  readonly member: string

  constructor(member: string) {
    super(`job.${member} is not available in a thread`, {
      code: 'NOT_IN_THREAD',
      retryable: false,
      hint: 'Return the data as the result. Use it in a second job without `threads`, which runs after this job.',
    })
    this.member = member
  }
}

/** Error that a handler throws to fail the attempt and bury the job without further attempts. */
export class NonRetryableError extends HoldfastError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, { code: 'NON_RETRYABLE', retryable: false, cause: options.cause })
  }
}

/** Thrown by calls that change a queue if no instance has ever used a queue with this name. */
export class UnknownQueueError extends HoldfastError {
  /** Requested name. */
  readonly queue: string

  /** `known` contains the names of existing queues. The hint suggests a similar name. */
  constructor(queue: string, namespace: string, known: Iterable<string>) {
    super(`There is no queue "${queue}" in the namespace "${namespace}"`, {
      code: 'UNKNOWN_QUEUE',
      retryable: false,
      hint: didYouMean(queue, known) ?? 'A queue exists as soon as a job is enqueued in it or a worker serves it.',
    })
    this.queue = queue
  }
}

/** Thrown if the input does not match the definition's schema. */
export class InvalidInputError extends HoldfastError {
  readonly kind: string
  /** Issues that the schema found. */
  readonly issues: readonly { readonly message: string; readonly path: string }[]

  constructor(kind: string, issues: readonly { readonly message: string; readonly path: string }[]) {
    const listed = issues.map(({ message, path }) => (path ? `${path}: ${message}` : message)).join('; ')
    super(`The input for "${kind}" does not match its schema: ${listed}`, { code: 'INVALID_INPUT', retryable: false })
    this.kind = kind
    this.issues = issues
  }
}

/** Thrown if an input or a result is too large. */
export class PayloadTooLargeError extends HoldfastError {
  readonly bytes: number
  readonly limit: number

  constructor(what: 'an input' | 'a result' | 'meta' | 'the data of an event', bytes: number, limit: number) {
    super(`Expected ${what} of at most ${limit} bytes of JSON, got ${bytes}`, {
      code: 'PAYLOAD_TOO_LARGE',
      retryable: false,
      hint: 'Store large data elsewhere, for example in your own table, and put a reference to the data into the job.',
    })
    this.bytes = bytes
    this.limit = limit
  }
}

/** Thrown by `jobs.result` if the job has been cancelled, expired, discarded or buried. */
export class JobFailedError extends HoldfastError {
  readonly id: number
  readonly state: 'cancelled' | 'expired' | 'discarded' | 'buried'
  readonly failure: RecordedError | undefined

  constructor(id: number, state: JobFailedError['state'], failure: RecordedError | undefined) {
    super(`Job ${id} ${state === 'expired' ? 'has' : 'was'} ${state}${failure ? `: ${failure.message}` : ''}`, {
      code: 'JOB_FAILED',
      retryable: false,
      hint: 'To run the job again, call jobs.retry(id).',
    })
    this.id = id
    this.state = state
    this.failure = failure
  }
}

/** Thrown by `jobs.result` if the job does not end within `wait`. The job continues. */
export class ResultTimeoutError extends HoldfastError {
  readonly id: number

  constructor(id: number, waitMs: number) {
    super(`Job ${id} did not end within ${formatDuration(waitMs)}`, {
      code: 'RESULT_TIMEOUT',
      retryable: true,
      hint: "Set a longer `wait`, or check the job's state with jobs.find(id).",
    })
    this.id = id
  }
}

/** Thrown if the other library's tables are not in this database or have an unknown version. */
export class UnknownSourceError extends HoldfastError {
  constructor(message: string, hint: string) {
    super(message, { code: 'UNKNOWN_SOURCE', retryable: false, hint })
  }
}
