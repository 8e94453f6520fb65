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
  /** How many attempts may fail before the job is buried. Default 5. */
  attempts?: number | undefined
  /** The pause after the first failure, doubled with each further one, the upper half of it at random. Default `1s`. */
  backoff?: Duration | undefined
  /** The longest pause. Default `1h`. */
  maxBackoff?: Duration | undefined
}

export interface JobOptions<Input, Handled, Result> {
  /** What inputs must look like. Checked before a job is enqueued, and before it is run. */
  input?: Schema<Input, Handled> | undefined
  /** The queue that its jobs wait in. Default `default`. */
  queue?: string | undefined
  retry?: RetryOptions | undefined
  /** How long an attempt may take. Default: as long as it wants. */
  timeout?: Duration | undefined
  /** How many workers may die while they run the job, before it is buried. Default 3. */
  maxCrashes?: number | undefined
  /** What holds for each lane that its jobs are enqueued in. Default: one at a time. */
  lanes?: LaneOptions | undefined
  /** The handler. What it returns, anything that JSON can carry, is the result of the job. */
  run: (input: Handled, job: JobContext) => Promise<Result | JobOutcome> | Result | JobOutcome
  batch?: undefined
}

/** A handler that takes many jobs at once. */
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
/** Options of `retry`, which many libraries have beside it. */
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
 * Defines a kind of job. Its name is written with each job: whoever works finds the definition by it.
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
/** Without a schema the handler gets what was enqueued, as JSON carried it. */
export function defineJob<Input = unknown, Result = unknown>(
  kind: string,
  options: JobOptions<Input, Input, Result> & { input?: undefined },
): JobDefinition<Input, Input, Result>
/** With `batch` the handler gets many jobs at once, and answers for each. */
export function defineJob<Input, Handled, Result = unknown>(
  kind: string,
  options: BatchJobOptions<Input, Handled, Result> & { input: Schema<Input, Handled> },
): JobDefinition<Input, Handled, Result>
/** The same without a schema. */
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

/** Throws where something else is given. */
export function checkDefinition(given: unknown): asserts given is AnyDefinition {
  const { kind, run } = (given ?? {}) as Partial<AnyDefinition>
  if (typeof kind === 'string' && typeof run === 'function') return
  throw new UsageError(`Expected a definition made by defineJob, got ${describe(given)}`)
}

/** What the handler gets of an input; throws an `InvalidInputError` when it does not fit. */
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
