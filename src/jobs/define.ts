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
  /** Number of failed attempts after which the job is buried. The default is 5. */
  attempts?: number | undefined
  /**
   * Pause after the first failure. The pause doubles after each further failure. The actual pause is random, between
   * half of this value and the full value. The default is `1s`.
   */
  backoff?: Duration | undefined
  /** Maximum pause between two attempts. The default is `1h`. */
  maxBackoff?: Duration | undefined
}

export interface JobOptions<Input, Handled, Result> {
  /** Schema for inputs. The input is validated before the job is enqueued and again before the job runs. */
  input?: Schema<Input, Handled> | undefined
  /** Name of the queue for these jobs. The default is `default`. */
  queue?: string | undefined
  retry?: RetryOptions | undefined
  /** Time limit of an attempt. By default, there is no limit. */
  timeout?: Duration | undefined
  /** Number of worker crashes after which a job is buried. The default is 3. */
  maxCrashes?: number | undefined
  /** Limits for each lane. By default, a lane runs one job at a time. */
  lanes?: LaneOptions | undefined
  /** Handler function. The return value becomes the job's result and must be serializable as JSON. */
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
  input: objectWith<Schema>('a schema that implements the Standard Schema interface', '~standard'),
  queue: { expected: 'a name', read: (given: unknown) => checkName(given, 'queue') },
  retry: { expected: 'an object', read: (given: unknown) => given },
  timeout: duration(1, maxTimerMs),
  maxCrashes: wholeNumber(1, 1_000),
  batch: { expected: 'an object', read: (given: unknown) => given },
  lanes: { expected: 'an object', read: (given: unknown) => given },
  run: { expected: 'a function', read: (given: unknown) => (typeof given === 'function' ? given : undefined) },
}
/**
 * Names of retry options that other libraries accept at the top level, with the corresponding option of this library.
 */
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
 * Defines a kind of background job. The kind is stored with each job, and workers use the kind to find the definition.
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
/** Defines a job without a schema. The handler receives the enqueued input after a round trip through JSON. */
export function defineJob<Input = unknown, Result = unknown>(
  kind: string,
  options: JobOptions<Input, Input, Result> & { input?: undefined },
): JobDefinition<Input, Input, Result>
/** Defines a job with `batch`. The handler receives several jobs per call and returns one result for each job. */
export function defineJob<Input, Handled, Result = unknown>(
  kind: string,
  options: BatchJobOptions<Input, Handled, Result> & { input: Schema<Input, Handled> },
): JobDefinition<Input, Handled, Result>
/** Defines a job with `batch` and without a schema. */
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

/** Throws if the value is not a definition made by `defineJob`. */
export function checkDefinition(given: unknown): asserts given is AnyDefinition {
  const { kind, run } = (given ?? {}) as Partial<AnyDefinition>
  if (typeof kind === 'string' && typeof run === 'function') return
  throw new UsageError(`Expected a definition made by defineJob, got ${describe(given)}`)
}

/**
 * Validates and transforms the input with the schema. Throws an `InvalidInputError` if the input does not match the
 * schema.
 */
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
