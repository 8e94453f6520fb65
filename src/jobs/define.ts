import {
  awaitValue,
  checkName,
  type Duration,
  describe,
  duration,
  isThenable,
  objectWith,
  readOptions,
  textOf,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import { readBatch, runAlone } from './batches.js'
import { type BudgetUse, budgetsRule } from './budgets.js'
import type {
  Batch,
  BatchHandler,
  BatchOptions,
  ImplementedJob,
  JobDefinition,
  JobHandler,
  ThreadOptions,
} from './definition.js'
import { InvalidInputError } from './errors.js'
import { type LaneOptions, readPolicy } from './lanes.js'
import { type RetryOptions, readRetry, retryRule, timeoutRule } from './policy.js'
import type { Schema, Verdict } from './schema.js'
import { runInThread } from './thread-pool.js'
import { readThreads } from './threads.js'

export interface JobOptions<Input, Handled = Input> {
  /** Schema for inputs. The input is validated before the job is enqueued and again before the job runs. */
  input?: Schema<Input, Handled> | undefined
  /** Name of the queue for these jobs. The default is `default`. */
  queue?: string | undefined
  retry?: RetryOptions | undefined
  /** Time limit for an attempt. By default, there is no limit. */
  timeout?: Duration | undefined
  /**
   * Retention time of ended jobs. Has no effect if it is shorter than the `jobs.retain` setting. Takes effect once a
   * worker has registered the definition.
   */
  keep?: Duration | undefined
  /** Number of worker crashes after which a job is buried. The default is 3. */
  maxCrashes?: number | undefined
  /** Limits for each lane. By default, a lane runs one job at a time. */
  lanes?: LaneOptions | undefined
  /**
   * Budgets of the jobs and schedules that code creates with this definition. A job starts when all of its budgets have room. A job from SQL
   * has the budgets that the call passes. A job from the command line or the dashboard has none.
   */
  budgets?: readonly BudgetUse[] | undefined
}

/** Options for a definition that includes its handler. */
export interface ImplementedJobOptions<Input, Result, Handled = Input> extends JobOptions<Input, Handled> {
  batch?: undefined
  threads?: undefined
  run: JobHandler<Handled, Result>
}

/** Options for a definition that includes a handler for many jobs per call. */
export interface BatchJobOptions<Input, Result, Handled = Input> extends JobOptions<Input, Handled> {
  batch: BatchOptions
  threads?: undefined
  run: BatchHandler<Handled, Result>
}

/** Options for a definition whose handler runs in threads. */
export interface ThreadJobOptions<Input, Handled = Input> extends JobOptions<Input, Handled> {
  threads: ThreadOptions
  batch?: undefined
  run?: undefined
}

const rules = {
  input: objectWith<Schema>('a schema that implements the Standard Schema interface', '~standard'),
  queue: { expected: 'a name', read: (given: unknown) => checkName(given, 'queue') },
  retry: retryRule,
  timeout: timeoutRule,
  keep: duration(86_400_000, 3_650 * 86_400_000),
  maxCrashes: wholeNumber(1, 1_000),
  batch: { expected: 'an object', read: (given: unknown) => given },
  lanes: { expected: 'an object', read: (given: unknown) => given },
  budgets: budgetsRule,
  threads: { expected: 'an object', read: (given: unknown) => given },
  run: { expected: 'a function', read: (given: unknown) => (typeof given === 'function' ? given : undefined) },
}
/**
 * Names of retry options that other libraries accept at the top level, with this library's corresponding option.
 */
const elsewhere = {
  attempts: 'retry.attempts',
  maxAttempts: 'retry.attempts',
  retries: 'retry.attempts',
  retryLimit: 'retry.attempts',
  backoff: 'retry.backoff',
  maxBackoff: 'retry.maxBackoff',
}

/**
 * Defines a kind of background job. The kind is stored with each job, and workers use the kind to find the definition.
 * Without a schema, the handler receives the enqueued input after a round trip through JSON, and the type of the input
 * is the type of the handler's parameter. Without such a parameter, the job has no input, which JSON represents as null.
 *
 * With `run`, the definition includes its handler. Without `run`, the definition can enqueue jobs, and `implement` adds
 * the handler.
 *
 * @example
 * const sendEmail = defineJob('send-email', {
 *   input: z.object({ to: z.email() }),
 *   retry: { attempts: 5 },
 *   timeout: '1m',
 *   run: async ({ to }, job) => mailer.send(to, { signal: job.signal }),
 * })
 */
export function defineJob<Handled = null, Result = unknown, Input = Handled>(
  kind: string,
  options?: JobOptions<Input, Handled> & { batch?: undefined; threads?: undefined; run?: undefined },
): JobDefinition<Input, Result, Handled>
/** Defines a job with a handler that receives several jobs per call and returns one result for each job. */
export function defineJob<Handled = null, Result = unknown, Input = Handled>(
  kind: string,
  options: BatchJobOptions<Input, Result, Handled>,
): ImplementedJob<Input, Result, Handled>
/**
 * Defines a job whose handler runs in threads, so that a long computation does not block the worker. A module exports the handler.
 *
 * @example
 * export const resize = defineJob<{ image: string }, number>('resize', {
 *   threads: { module: new URL('./resize-thread.js', import.meta.url), max: 4 },
 *   timeout: '1m',
 * })
 */
export function defineJob<Handled = null, Result = unknown, Input = Handled>(
  kind: string,
  options: ThreadJobOptions<Input, Handled>,
): ImplementedJob<Input, Result, Handled>
/** Defines a job with its handler. */
export function defineJob<Handled = null, Result = unknown, Input = Handled>(
  kind: string,
  options: ImplementedJobOptions<Input, Result, Handled>,
): ImplementedJob<Input, Result, Handled>
/** @internal */
export function defineJob(kind: string, options?: unknown): JobDefinition {
  const read = readOptions('defineJob', options, rules, elsewhere)
  const {
    input,
    queue = 'default',
    retry,
    timeout,
    keep,
    maxCrashes = 3,
    batch,
    threads,
    lanes,
    budgets = [],
    run,
  } = read
  const definition: JobDefinition = {
    kind: checkName(kind, 'the name of the job'),
    queue,
    ...readRetry(retry),
    timeoutMs: timeout,
    keepDays: keep === undefined ? undefined : Math.ceil(keep / 86_400_000),
    maxCrashes,
    lanes: readPolicy('lanes', lanes, 1),
    budgets,
    schema: input,
  }
  if (threads !== undefined) return withThreads(definition, threads, batch, run)
  if (run !== undefined || batch !== undefined) return withHandler(definition, batch, run)
  return Object.freeze(definition)
}

/**
 * Adds the handler to a definition. Programs that only enqueue jobs import the definition, without the handler and the
 * handler's imports. Workers import the implemented job.
 *
 * @example
 * export const sendEmail = defineJob<{ to: string }>('send-email')
 * // In another file:
 * export const emails = (mailer: Mailer) => implement(sendEmail, async ({ to }) => mailer.send(to))
 */
export function implement<Input, Result, Handled, Returned extends Result>(
  definition: JobDefinition<Input, Result, Handled>,
  run: JobHandler<NoInfer<Handled>, Returned>,
): ImplementedJob<Input, Returned, Handled>
/** Adds a handler that receives several jobs per call and returns one result for each job. */
export function implement<Input, Result, Handled, Returned extends Result>(
  definition: JobDefinition<Input, Result, Handled>,
  options: { batch: BatchOptions },
  run: BatchHandler<NoInfer<Handled>, Returned>,
): ImplementedJob<Input, Returned, Handled>
/** Adds a handler that runs in threads. A module exports the handler. */
export function implement<Input, Result, Handled>(
  definition: JobDefinition<Input, Result, Handled>,
  options: { threads: ThreadOptions },
): ImplementedJob<Input, Result, Handled>
/** @internal */
export function implement(definition: JobDefinition, ...given: readonly unknown[]): ImplementedJob {
  checkDefinition(definition)
  const [options, run] = typeof given[0] === 'function' ? [undefined, ...given] : given
  const { batch, threads } = readOptions('implement', options, { batch: rules.batch, threads: rules.threads })
  if (threads !== undefined) return withThreads(definition, threads, batch, run)
  return withHandler(definition, batch, run)
}

function withThreads(definition: JobDefinition, options: unknown, batch: unknown, run: unknown): ImplementedJob {
  if (batch !== undefined || run !== undefined) {
    const other = batch === undefined ? 'run' : 'batch'
    throw new UsageError(
      `Expected threads without ${other}`,
      'The module in `threads` exports the handler of a single job.',
    )
  }
  return Object.freeze({ ...definition, batch: undefined, threads: readThreads(options), run: runInThread })
}

function withHandler(definition: JobDefinition, batchOptions: unknown, run: unknown): ImplementedJob {
  if (typeof run !== 'function') throw new UsageError(`Expected run to be a function, got ${describe(run)}`)
  const batch = batchOptions === undefined ? undefined : readBatch(batchOptions, run as Batch['run'])
  return Object.freeze({
    ...definition,
    batch,
    threads: undefined,
    run: batch ? runAlone(batch) : (run as ImplementedJob['run']),
  })
}

/** Throws if the value is not a definition made by `defineJob`. */
export function checkDefinition(given: unknown): asserts given is JobDefinition {
  const { kind, queue, attempts } = (given ?? {}) as Partial<JobDefinition>
  if (typeof kind === 'string' && typeof queue === 'string' && typeof attempts === 'number') return
  throw new UsageError(`Expected a definition made by defineJob, got ${describe(given)}`)
}

/** Throws if the value is not a definition with a handler. */
export function checkImplemented(given: unknown): asserts given is ImplementedJob {
  checkDefinition(given)
  if (typeof (given as Partial<ImplementedJob>).run === 'function') return
  throw new UsageError(
    `Expected jobs with a handler, got the definition of "${given.kind}" without a handler`,
    'Pass implement(definition, run), or add the `run` option to the definition.',
  )
}

/**
 * Validates and transforms the input with the schema. Throws an `InvalidInputError` if the input does not match the
 * schema.
 */
export function validated(definition: JobDefinition, input: unknown): unknown {
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
