/**
 * Three kinds of trouble, told apart everywhere in Holdfast:
 *
 * - a mistake of the programmer throws `UsageError` at once;
 * - an operating error is another subclass of `HoldfastError`, with a stable `code`;
 * - an outcome (busy, replayed, skipped) is a value and never thrown.
 */
interface ErrorDetails {
  /** Stable, for programs. */
  code: string
  /** Whether the same call may succeed later without anybody changing anything. */
  retryable: boolean
  /** What to do about it, in one sentence. */
  hint?: string | undefined
  cause?: unknown
}

/**
 * The root of every error that Holdfast throws.
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

/** Whether the same call may succeed later without anybody changing anything. */
export function isRetryable(error: unknown): boolean {
  return error instanceof HoldfastError && error.retryable
}

/** The program asked for something that can never work: a wrong option, an empty name, a lock inside itself. */
export class UsageError extends HoldfastError {
  constructor(message: string, hint?: string) {
    super(message, { code: 'USAGE', retryable: false, hint })
  }
}

/** The instance drains: it takes no new work. Also the reason of the signals of what it still holds when the time is over. */
export class InstanceDrainingError extends HoldfastError {
  constructor() {
    super('This instance is draining', {
      code: 'INSTANCE_DRAINING',
      retryable: false,
      hint: 'Let go, and begin nothing new here: the other instances take over.',
    })
  }
}

/**
 * The instance, or the part of it that was asked, has been closed. A call that was under way names itself, and its stack leads to
 * the line that made the call.
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
