/**
 * Holdfast distinguishes three ways in which a call can fail:
 *
 * - A programming error throws a `UsageError` immediately.
 * - An operational error throws another subclass of `HoldfastError`, with a stable `code`.
 * - An expected outcome (busy, replayed, skipped) is returned and never thrown.
 */
export interface ErrorDetails {
  /** Stable error code for programs. */
  code: HoldfastErrorCode
  retryable: boolean
  /** One sentence about how to fix the problem. */
  hint?: string | undefined
  cause?: unknown
}

/** Code of an error that Holdfast throws. */
export type HoldfastErrorCode =
  | 'CLOSED'
  | 'DATABASE_ERROR'
  | 'DATABASE_UNREACHABLE'
  | 'DEADLOCK'
  | 'DEMO_RUNS'
  | 'DRAINING'
  | 'DUPLICATE_STEP'
  | 'EMBEDDED_COPY_NOT_OURS'
  | 'EMBEDDED_DATA_IN_USE'
  | 'EMBEDDED_DATA_NOT_OURS'
  | 'EMBEDDED_NO_USER'
  | 'EMBEDDED_PACKAGE_MISSING'
  | 'EMBEDDED_PORT_TAKEN'
  | 'EMBEDDED_START_FAILED'
  | 'EMBEDDED_UNREACHABLE'
  | 'EMBEDDED_UNSUPPORTED'
  | 'FINGERPRINT_MISMATCH'
  | 'IMPORT_FAILED'
  | 'INVALID_INPUT'
  | 'ISOLATION_LEVEL'
  | 'JOB_CANCELLED'
  | 'JOB_FAILED'
  | 'JOB_LOST'
  | 'JOB_SUSPENDED'
  | 'JOB_TIMEOUT'
  | 'KEY_COLLISION'
  | 'LEASE_LOST'
  | 'LEASE_NOT_HELD'
  | 'LEASE_TIMEOUT'
  | 'LIMIT_REACHED'
  | 'LIMIT_RESET'
  | 'LOCK_LOST'
  | 'LOCK_TABLE_FULL'
  | 'LOCK_TIMEOUT'
  | 'LOGIN_REFUSED'
  | 'MIGRATION_BLOCKED'
  | 'MIGRATION_FAILED'
  | 'NON_RETRYABLE'
  | 'NOT_IN_THREAD'
  | 'ONCE_FAILED'
  | 'ONCE_LOST'
  | 'PAYLOAD_TOO_LARGE'
  | 'PERMISSION_DENIED'
  | 'PERMIT_LOST'
  | 'READ_ONLY'
  | 'RELEASE_REQUESTED'
  | 'RESOURCES_FAILED'
  | 'RESOURCE_MOVED'
  | 'RESULT_TIMEOUT'
  | 'RUN_LOST'
  | 'RUN_REPLACED'
  | 'RUN_TIMEOUT'
  | 'SCHEMA_OUTDATED'
  | 'SCHEMA_TOO_NEW'
  | 'SESSION_LINGERS'
  | 'SESSION_LOCKS_UNAVAILABLE'
  | 'STALE_FENCE'
  | 'STEPPED_DOWN'
  | 'STEP_LIMIT'
  | 'TEST_TIMEOUT'
  | 'THREAD_ENDED'
  | 'THREAD_MODULE'
  | 'TOO_LARGE'
  | 'TOO_MANY_CONNECTIONS'
  | 'UNIQUE_KEY_BUSY'
  | 'UNKNOWN_QUEUE'
  | 'UNKNOWN_SCHEDULE'
  | 'UNKNOWN_SOURCE'
  | 'USAGE'

/**
 * Base class of every error that Holdfast throws.
 *
 * @example
 * try { await holdfast.locks.acquire('nightly-report', { wait: '5s' }) }
 * catch (error) {
 *   if (error instanceof HoldfastError && error.retryable) return later()
 *   throw error
 * }
 */
export class HoldfastError extends Error {
  readonly code: HoldfastErrorCode
  readonly retryable: boolean
  readonly hint: string | undefined

  constructor(message: string, details: ErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = new.target.name
    this.code = details.code
    this.retryable = details.retryable
    this.hint = details.hint
  }
}

/** Whether the same call may succeed if it is retried later without changes. */
export function isRetryable(error: unknown): boolean {
  try {
    return error instanceof HoldfastError && error.retryable
  } catch {
    // A value that a handler threw may throw when it is inspected. This file is also part of the dashboard's page, so it cannot use
    // `isInstance`, which needs Node.js.
    return false
  }
}

/**
 * Thrown for a call that can never succeed, for example because of an invalid option, an empty name, or a nested request for
 * a lock that the caller already holds.
 */
export class UsageError extends HoldfastError {
  constructor(message: string, hint?: string) {
    super(message, { code: 'USAGE', retryable: false, hint })
  }
}

const drainingHints = {
  instance: 'Release what you hold and start no new work on this instance. Other instances take over.',
  schedule: 'Stop the work and throw an error. Another instance then runs the tick again.',
  worker: 'Stop the work and throw an error. Another worker then runs the job, and this attempt is not counted.',
}

/**
 * Thrown while the instance is draining, because a draining instance starts no new work. If the time limit of a drain or of a `close` passes,
 * the signals of the remaining work abort with this error: the handles that are still held, the jobs of the worker, or the runs of the schedule.
 */
export class DrainingError extends HoldfastError {
  /** Part that is draining: the whole instance, a job worker, or a schedule. */
  readonly part: 'instance' | 'worker' | 'schedule'

  constructor(part: DrainingError['part'], name?: string) {
    super(`This ${part} is draining${name === undefined ? '' : `: "${name}"`}`, {
      code: 'DRAINING',
      // Another worker or instance repeats interrupted work. The same instance never starts new work again.
      retryable: part !== 'instance',
      hint: drainingHints[part],
    })
    this.part = part
  }
}

/**
 * Thrown because the instance, or a part of it, has been closed. If a call was in flight, the error contains that
 * call's name and stack trace.
 *
 * @example
 * const waiting = holdfast.locks.acquire('nightly-report')
 * await holdfast.close()
 * await waiting // ClosedError: This instance was closed during locks.acquire of "nightly-report"
 */
export class ClosedError extends HoldfastError {
  constructor(what: string, cutOff?: { call: string; stack: string | undefined }) {
    super(cutOff ? `${what} was closed during ${cutOff.call}` : `${what} is closed`, {
      code: 'CLOSED',
      retryable: false,
      hint: cutOff && 'Await the call before you call close().',
    })
    const frames = cutOff?.stack?.indexOf('\n') ?? -1
    if (frames >= 0) this.stack = `${this.name}: ${this.message}${cutOff!.stack!.slice(frames)}`
  }
}
