/**
 * Holdfast distinguishes three ways in which a call can fail:
 *
 * - A programming error throws a `UsageError` immediately.
 * - An operational error throws another subclass of `HoldfastError`, with a stable `code`.
 * - An expected outcome (busy, replayed, skipped) is returned and never thrown.
 */
interface ErrorDetails {
  /** Stable error code for programs. */
  code: string
  retryable: boolean
  /** One sentence about how to fix the problem. */
  hint?: string | undefined
  cause?: unknown
}

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
  readonly code: string
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
  return error instanceof HoldfastError && error.retryable
}

/** Thrown for a call that can never succeed. Examples are an invalid option, an empty name, and acquiring a lock inside the same lock. */
export class UsageError extends HoldfastError {
  constructor(message: string, hint?: string) {
    super(message, { code: 'USAGE', retryable: false, hint })
  }
}

/**
 * Thrown while the instance is draining, because a draining instance starts no new work. If draining times out, the signal of every handle
 * that is still held aborts with this error.
 */
export class InstanceDrainingError extends HoldfastError {
  constructor() {
    super('This instance is draining', {
      code: 'INSTANCE_DRAINING',
      retryable: false,
      hint: 'Release what you hold and start no new work on this instance. Other instances take over.',
    })
  }
}

/**
 * Thrown because the instance, or a part of it, has been closed. If a call was in flight, the error contains the name and the stack trace
 * of that call.
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
