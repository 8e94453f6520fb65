import {
  awaitValue,
  checkName,
  type Duration,
  describe,
  duration,
  isThenable,
  maxTimerMs,
  objectWith,
  readOptions,
  textOf,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import { readBatch, runAlone } from './batches.js'
import type { AnyDefinition, BatchHandler, BatchOptions, JobContext, JobDefinition } from './definition.js'
import { InvalidInputError } from './errors.js'
import { type LaneOptions, lanePolicy } from './lanes.js'
import type { JobOutcome } from './outcome.js'
import type { Schema, Verdict } from './schema.js'

export interface RetryOptions {
  /** Number of attempts that may fail before the job is buried. Default 5. */
  attempts?: number | undefined
  /**
   * Pause after the first failure. It doubles after each further failure. The actual pause is random, between half of
   * this value and the full value. Default `1s`.
   */
  backoff?: Duration | undefined
  /** Maximum pause. Default `1h`. */
  maxBackoff?: Duration | undefined
}

export interface JobOptions<Input, Handled, Result> {
  /** Schema for inputs. It is applied before a job is enqueued and again before it runs. */
  input?: Schema<Input, Handled> | undefined
  /** Queue of the jobs. Default `default`. */
  queue?: string | undefined
  retry?: RetryOptions | undefined
  /** Time limit of an attempt. Default: none. */
  timeout?: Duration | undefined
  /** Number of workers that may die while they run the job, before it is buried. Default 3. */
  maxCrashes?: number | undefined
  /** Limits for each lane. By default, a lane runs one job at a time. */
  lanes?: LaneOptions | undefined
  /** Handler. Its return value, which must be JSON, becomes the result of the job. */
  run: (input: Handled, job: JobContext) => Promise<Result | JobOutcome> | Result | JobOutcome
  batch?: undefined
}

/** Options of a definition whose handler receives many jobs per call. */
export interface BatchJobOptions<Input, Handled, Result>
  extends Omit<JobOptions<Input, Handled, Result>, 'run' | 'batch'> {
  batch: BatchOptions
  run: BatchHandler<Handled, Result>
}

const maxDurationMs = 3_650 * 86_400_000

const rules = {
  input: objectWith<Schema>('a schema that keeps to standardschema.dev', '~standard'),
  queue: { expected: 'a name', read: (given: unknown) => checkName(given, 'queue') },
  retry: { expected: 'an object', read: (given: unknown) => given },
  timeout: duration(1, maxTimerMs),
  maxCrashes: wholeNumber(1, 1_000),
  batch: { expected: 'an object', read: (given: unknown) => given },
  lanes: { expected: 'an object', read: (given: unknown) => given },
  run: { expected: 'a function', read: (given: unknown) => (typeof given === 'function' ? given : undefined) },
}
/** Options of `retry` that other libraries accept at the top level. */
const elsewhere = {
  attempts: 'retry.attempts',
  maxAttempts: 'retry.attempts',
  retries: 'retry.attempts',
  retryLimit: 'retry.attempts',
  backoff: 'retry.backoff',
  maxBackoff: 'retry.maxBackoff',
}
const retryRules = {
  attempts: wholeNumber(1, 1_000_000),
  backoff: duration(0, maxDurationMs),
  maxBackoff: duration(0, maxDurationMs),
}
/**
 * Defines a kind of background job. The name is stored with each job, and workers find the definition by it.
 *
 * @example
 * const sendEmail = defineJob('send-email', {
 *   input: z.object({ to: z.email() }),
 *   retry: { attempts: 5 },
 *   timeout: '1m',
 *   run: async ({ to }, job) => mailer.send(to, { signal: job.signal }),
 * })
 */
export function defineJob<Input, Handled, Result = unknown>(
  kind: string,
  options: JobOptions<Input, Handled, Result> & { input: Schema<Input, Handled> },
): JobDefinition<Input, Handled, Result>
/** Without a schema the handler receives the input as it was enqueued, after a round trip through JSON. */
export function defineJob<Input = unknown, Result = unknown>(
  kind: string,
  options: JobOptions<Input, Input, Result> & { input?: undefined },
): JobDefinition<Input, Input, Result>
/** With `batch` the handler receives many jobs and returns one result for each. */
export function defineJob<Input, Handled, Result = unknown>(
  kind: string,
  options: BatchJobOptions<Input, Handled, Result> & { input: Schema<Input, Handled> },
): JobDefinition<Input, Handled, Result>
/** Defines a batch without a schema. */
export function defineJob<Input = unknown, Result = unknown>(
  kind: string,
  options: BatchJobOptions<Input, Input, Result> & { input?: undefined },
): JobDefinition<Input, Input, Result>
/** @internal */
export function defineJob(
  kind: string,
  options: JobOptions<unknown, unknown, unknown> | BatchJobOptions<unknown, unknown, unknown>,
): JobDefinition<unknown, unknown, unknown> {
  const {
    input,
    queue = 'default',
    retry,
    timeout,
    maxCrashes = 3,
    batch: given,
    lanes,
    run,
  } = readOptions('defineJob', options, rules, elsewhere)
  const { attempts = 5, backoff = 1_000, maxBackoff = 3_600_000 } = readOptions('retry', retry, retryRules)
  if (run === undefined) throw new UsageError(`Expected run to be a function, got ${describe(options?.run)}`)
  const batch = given === undefined ? undefined : readBatch(given, run as BatchHandler<unknown, unknown>)
  return Object.freeze({
    kind: checkName(kind, 'the name of the job'),
    queue,
    attempts,
    backoffMs: backoff,
    maxBackoffMs: maxBackoff,
    timeoutMs: timeout,
    maxCrashes,
    lanes: lanePolicy(lanes),
    schema: input,
    batch,
    run: batch ? runAlone(batch) : (run as JobDefinition['run']),
  })
}

/** Throws if the value was not made by `defineJob`. */
export function checkDefinition(given: unknown): asserts given is AnyDefinition {
  const { kind, run } = (given ?? {}) as Partial<AnyDefinition>
  if (typeof kind === 'string' && typeof run === 'function') return
  throw new UsageError(`Expected a definition made by defineJob, got ${describe(given)}`)
}

/** Returns the input as the schema transforms it. Throws an `InvalidInputError` if it does not fit. */
export function validated(definition: AnyDefinition, input: unknown): unknown {
  const { schema, kind } = definition
  if (!schema) return input
  const verdict = schema['~standard'].validate(input)
  return isThenable(verdict) ? awaitValue(verdict).then((one) => accepted(kind, one)) : accepted(kind, verdict)
}

function accepted(kind: string, verdict: Verdict<unknown>): unknown {
  if (!verdict.issues) return verdict.value
  const issues = verdict.issues.map(({ message, path = [] }) => ({
    message,
    path: path.map((part) => textOf((part as { key?: unknown } | null)?.key ?? part)).join('.'),
  }))
  throw new InvalidInputError(kind, issues)
}
