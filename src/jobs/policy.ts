// Retries and time limits: the rules for the options, and the precedence of a job's own options over its definition's
// options.
import {
  backoffMs,
  type Duration,
  defaultTimes,
  duration,
  maxTimerMs,
  parseDuration,
  readOptions,
  UsageError,
  wholeNumber,
} from '../base/index.js'

export interface RetryOptions {
  /** Number of failed attempts after which the job is buried. The default is 5. */
  attempts?: number | undefined
  /**
   * Pause after the first failure. The pause doubles after each further failure. The actual pause is random, between
   * half of this value and the full value. The default is `1s`. In a definition, also a function that returns the pause
   * after each failure.
   */
  backoff?: Duration | BackoffFunction | undefined
  /** Maximum pause between two attempts. The default is `1h`. Does not apply to a function. */
  maxBackoff?: Duration | undefined
}

/**
 * Returns the pause before the next attempt. `failures` is the number of failed attempts, starting at 1, and `error` is
 * the value that the handler threw. If the function throws, or returns no duration, the default pause applies.
 *
 * @example
 * const backoff: BackoffFunction = (failures, error) => (error as { retryAfterMs?: number }).retryAfterMs ?? failures * 1_000
 */
export type BackoffFunction = (failures: number, error: unknown) => Duration

/** Retry options of a single job, which are stored with the job. */
export interface JobRetryOptions extends RetryOptions {
  backoff?: Duration | undefined
}

/** Options of a single job that override its definition's options. Part of the job's links. */
export interface OwnOptions {
  readonly attempts?: number | undefined
  readonly backoffMs?: number | undefined
  readonly maxBackoffMs?: number | undefined
  readonly timeoutMs?: number | undefined
}

const maxDurationMs = 3_650 * 86_400_000
const pauseRule = duration(0, maxDurationMs)
const ownRules = {
  attempts: wholeNumber(1, 1_000_000),
  backoff: pauseRule,
  maxBackoff: pauseRule,
}
const retryRules = {
  ...ownRules,
  backoff: {
    expected: `${pauseRule.expected}, or a function that returns a duration`,
    read: (given: unknown) => (typeof given === 'function' ? (given as BackoffFunction) : pauseRule.read(given)),
  },
}
export const timeoutRule = duration(1, maxTimerMs)
export const retryRule = { expected: 'an object', read: (given: unknown) => given }

/** Reads a definition's `retry` option. */
export function readRetry(given: unknown) {
  const { attempts = 5, backoff = defaultTimes.jobBackoffMs, maxBackoff } = readOptions('retry', given, retryRules)
  if (typeof backoff === 'function' && maxBackoff !== undefined) {
    throw new UsageError('Expected retry.maxBackoff without a backoff function, got both')
  }
  return { attempts, backoff, maxBackoffMs: maxBackoff ?? defaultTimes.jobMaxBackoffMs }
}

/** Reads a single job's `retry` and `timeout` options. Returns undefined if there are none. */
export function readOwnOptions(retry: unknown, timeoutMs: number | undefined): OwnOptions | undefined {
  const { attempts, backoff: backoffMs, maxBackoff: maxBackoffMs } = readOptions('retry', retry, ownRules)
  const own: OwnOptions = { attempts, backoffMs, maxBackoffMs, timeoutMs }
  return Object.values(own).some((value) => value !== undefined) ? own : undefined
}

export interface TimedJob {
  readonly definition: { readonly timeoutMs: number | undefined }
  readonly links: { readonly own?: OwnOptions | undefined } | null
}

interface RetriedJob extends TimedJob {
  readonly definition: TimedJob['definition'] & Readonly<ReturnType<typeof readRetry>>
}

export function maxAttemptsOf({ definition, links }: RetriedJob): number {
  return links?.own?.attempts ?? definition.attempts
}

/** Returns the time limit of an attempt in milliseconds. Undefined if there is no limit. */
export function timeoutOf({ definition, links }: TimedJob): number | undefined {
  return links?.own?.timeoutMs ?? definition.timeoutMs
}

/** Returns the pause in milliseconds after a failure. `failures` counts the failures before this one. Never throws. */
export function pauseAfter({ definition, links }: RetriedJob, failures: number, error: unknown): number {
  const own = links?.own
  const maxMs = own?.maxBackoffMs ?? definition.maxBackoffMs
  const backoff = own?.backoffMs ?? definition.backoff
  if (typeof backoff === 'number') return backoffMs(failures, backoff, maxMs)
  try {
    const ms = parseDuration(backoff(failures + 1, error))
    if (ms !== undefined) return Math.min(ms, maxDurationMs)
  } catch {
    // The function belongs to the user, and an attempt must end even if the function fails.
  }
  return backoffMs(failures, defaultTimes.jobBackoffMs, maxMs)
}
