// Types of definitions and handlers. These types refer to each other, because a handler may enqueue jobs with any
// definition.
import type { Duration, Instant, JobMeta, JobProgress } from '../base/index.js'
import type { HandlerTransaction } from '../postgres/index.js'
import type { PlannedBudget } from './budgets.js'
import type { ChildOptions } from './enqueue-options.js'
import type { JobRef } from './job-ref.js'
import type { LanePolicy } from './lanes.js'
import type { JobOutcome } from './outcome.js'
import type { JobParent } from './parents.js'
import type { BackoffFunction } from './policy.js'
import type { Schema } from './schema.js'

/** An attempt's context. The handler receives the context as its second argument. */
export interface JobContext {
  readonly id: number
  readonly kind: string
  /** Attempt number, starting at 1. Failed attempts and crashes increase this number. */
  readonly attempt: number
  /** The `meta` with which the job was enqueued. Empty if there was none. */
  readonly meta: JobMeta
  /** Fencing token, larger than the tokens of all earlier attempts of this job. */
  readonly fence: number
  /**
   * Aborts when the handler should stop. The reason is a `JobCancelledError`, `JobTimeoutError`, `JobLostError` or
   * `DrainingError`.
   */
  readonly signal: AbortSignal
  /**
   * Transaction that commits exactly once, together with the job's outcome. The first query begins the transaction.
   * With the `transaction` option of `Holdfast.open`, a promise of your library's transaction, which begins when `tx` is
   * read.
   */
  readonly tx: HandlerTransaction
  /**
   * Enqueues a job through `tx`. The new job exists if and only if this attempt's outcome is recorded. Enqueue as late
   * as possible, because the transaction stays open until the attempt ends.
   */
  enqueue<Result>(
    definition: JobDefinition<null, Result>,
    input?: null,
    options?: ChildOptions,
  ): Promise<JobRef<Result>>
  /** Enqueues a job with an input through `tx`. */
  enqueue<Input, Result = unknown>(
    definition: JobDefinition<Input, Result>,
    input: NoInfer<Input>,
    options?: ChildOptions,
  ): Promise<JobRef<Result>>
  /** Returns the jobs in the `after` option, in the same order, with their states and results. */
  parents(): Promise<JobParent[]>
  /**
   * Reports the progress as a number or a small object (at most 2,000 bytes of JSON). You choose its meaning. The
   * dashboard shows a number from 0 to 1, and an object with `done` and `total`, as a bar. `jobs.find` and `jobs.watch`
   * return the progress after a short delay.
   *
   * @example
   * job.progress({ done: 120, total: 400, file: 'march.csv' })
   */
  progress(value: JobProgress): void
  /**
   * Adds a line to the job's log, with optional data. Returns immediately and never throws. Holdfast writes the lines in batches, and keeps
   * the last 100 lines of a job. A crash loses the lines of the last few hundred milliseconds.
   *
   * @example
   * job.log('charged the card', { amount, currency })
   */
  log(text: string, data?: unknown): void
  /**
   * Runs a function and records its result. A later attempt of this job gets the recorded result and does not run the
   * function again. The function's writes through `step.tx` commit together with the record, exactly once. The name is
   * unique in the job. The result is stored as JSON, and the call returns the stored value.
   *
   * @example
   * const fulfil = defineJob('fulfil', {
   *   run: async ({ order }: { order: number }, job) => {
   *     const charge = await job.step('charge', () => payments.charge(order, { idempotencyKey: `order:${order}` }))
   *     await job.step('book', ({ tx }) => tx.query('insert into booking values ($1, $2)', [order, charge.id]))
   *   },
   * })
   */
  step<Result>(name: string, work: (step: StepContext) => Promise<Result> | Result): Promise<Result>
  /**
   * Returns a cursor for a long loop: a recorded value that each iteration replaces. A later attempt continues with the
   * last value. The cursor counts as one step.
   *
   * @example
   * const pages = defineJob('pages', {
   *   run: async ({ count }: { count: number }, job) => {
   *     const page = await job.cursor('page', 1)
   *     while (page.value <= count) {
   *       await page.advance(async ({ tx }) => {
   *         await tx.query('select archive_page($1)', [page.value])
   *         return page.value + 1
   *       })
   *     }
   *   },
   * })
   */
  cursor<Value>(name: string, initial: Value): Promise<JobCursor<Value>>
  /**
   * Frees the worker's slot, and resumes the job after a duration or at a time. The handler then starts again, receives
   * the results of its recorded steps, and continues after the sleep. Does not count as an attempt.
   *
   * @example
   * await job.sleep('3d')
   */
  sleep(time: Duration | Instant, options?: SleepOptions): Promise<void>
  /**
   * Returns the data of an event that `jobs.send` has sent to this job. If there is no such event, frees the worker's
   * slot and resumes the job when the event arrives or when `within` has passed. After `within`, the call returns
   * undefined.
   *
   * @example
   * const publish = defineJob('publish', {
   *   run: async (_: null, job) => {
   *     const approval = await job.event<{ by: string }>('approved', { within: '7d' })
   *     return approval === undefined ? JobOutcome.cancel('not approved in time') : approval.by
   *   },
   * })
   */
  event<Data = unknown>(name: string, options: EventOptions): Promise<Data | undefined>
}

/** Context that a step's function receives. */
export interface StepContext {
  /**
   * Transaction that commits together with the step's record. The first query begins the transaction. With the
   * `transaction` option of `Holdfast.open`, a promise of your library's transaction.
   */
  readonly tx: HandlerTransaction
  /** The attempt's signal. */
  readonly signal: AbortSignal
  /** Enqueues a job through the step's `tx`. The new job exists if and only if the step is recorded. */
  readonly enqueue: JobContext['enqueue']
}

/** A recorded value that a loop replaces. */
export interface JobCursor<Value> {
  /** The value that was recorded last, or the initial value. */
  readonly value: Value
  /**
   * Runs a function and records its return value as the new value. The function's writes through `tx` commit together
   * with the record.
   */
  advance(work: (step: StepContext) => Promise<Value> | Value): Promise<Value>
}

export interface SleepOptions {
  /** Name of the step. The default is `sleep`. A job that sleeps twice needs two names. */
  step?: string | undefined
}

export interface EventOptions {
  /** Maximum time to wait for the event, from the first call of this step. */
  within: Duration
  /** Name of the step. The default is the name of the event. A job that waits twice for an event needs two names. */
  step?: string | undefined
}

/**
 * Definition of a kind of job, with its name and options. A job without a schema and without an annotated parameter
 * has the input null. `Handled` is the input that the handler receives: the output of the schema.
 */
export interface JobDefinition<Input = never, Result = unknown, Handled = unknown> {
  readonly kind: string
  readonly queue: string
  readonly attempts: number
  /** Pause after the first failure in milliseconds, or a function that returns the pause. */
  readonly backoff: number | BackoffFunction
  readonly maxBackoffMs: number
  readonly timeoutMs: number | undefined
  /** Number of days for which ended jobs are kept. Undefined if only the `jobs.retain` setting applies. */
  readonly keepDays: number | undefined
  readonly maxCrashes: number
  readonly lanes: LanePolicy
  /** Budgets of the jobs and schedules that code creates with this definition. */
  readonly budgets: readonly PlannedBudget[]
  readonly schema: Schema | undefined
  /** Types of the job. This property does not exist at run time. */
  readonly '~types'?:
    | { readonly input: (input: Input) => void; readonly handled: Handled; readonly result: Result }
    | undefined
}

/** Definition of a kind of job together with its handler. Workers run implemented jobs. */
export interface ImplementedJob<Input = never, Result = unknown, Handled = unknown>
  extends JobDefinition<Input, Result, Handled> {
  /** A batch definition's options and handler. In this case, `run` calls the batch handler with a single job. */
  readonly batch: Batch | undefined
  /** Options of a definition whose handler runs in threads. */
  readonly threads: Threads | undefined
  /** Runs the handler. This is a method, because methods with different input types still have a common type. */
  run(input: Handled, job: JobContext): HandlerResult<Result>
}

/**
 * An attempt's context in a thread. A thread has no connection to the database. If a handler reads `tx`, `enqueue`, `parents`, `step`, `cursor`,
 * `sleep` or `event`, it throws a `NotInThreadError`.
 */
export interface ThreadJob extends Pick<JobContext, 'id' | 'kind' | 'attempt' | 'meta' | 'fence' | 'progress' | 'log'> {
  /**
   * Aborts when the handler should stop. If the handler does not stop within 5 seconds, Holdfast terminates the thread. A computation without
   * pauses must read `job.signal` again for each check, because only this read receives the request to stop.
   */
  readonly signal: AbortSignal
}

/**
 * Type of the function that the module of `threads` exports. `Job` is the type of the definition.
 *
 * @example
 * const resize = defineJob<{ image: string }, number>('resize')
 * const run: ThreadHandler<typeof resize> = ({ image }, job) => resizeImage(image, job.signal)
 * export default run
 */
export type ThreadHandler<Job extends { readonly '~types'?: unknown }> =
  NonNullable<Job['~types']> extends { readonly handled: infer Handled; readonly result: infer Result }
    ? (input: Handled, job: ThreadJob) => HandlerResult<Result>
    : never

export interface ThreadOptions {
  /** File that exports the handler, for example `new URL('./resize.js', import.meta.url)`. */
  module: URL | string
  /** Name of the handler's export. The default is `default`. */
  export?: string | undefined
  /** Maximum number of threads per worker. Each thread runs one job at a time. The default is 1. */
  max?: number | undefined
  /** Maximum size of a thread's heap in megabytes. A thread that needs more memory ends, and the attempt fails. */
  maxHeapMb?: number | undefined
}

export interface Threads {
  readonly module: string
  readonly exportName: string
  readonly max: number
  readonly maxHeapMb: number | undefined
}

/** A handler's return value: a result, or a `JobOutcome`. */
export type HandlerResult<Result> = Promise<Result | JobOutcome> | Result | JobOutcome

/** A job's handler. The return value becomes the job's result and must be serializable as JSON. */
export type JobHandler<Handled, Result> = (input: Handled, job: JobContext) => HandlerResult<Result>

export interface BatchOptions {
  /** Maximum number of jobs in one call of the handler. */
  size: number
  /**
   * Maximum time to wait until a batch is full. By default, the handler immediately receives the jobs that are queued.
   */
  wait?: Duration | undefined
}

/** A job in a batch. Each job has its own attempts, signal and outcome. */
export interface BatchJob<Input = unknown>
  extends Pick<JobContext, 'id' | 'kind' | 'attempt' | 'meta' | 'fence' | 'signal' | 'progress' | 'log'> {
  readonly input: Input
}

/**
 * Handler for a batch. Returns nothing if all jobs are done. Otherwise, returns one element per job in the same order:
 * a result, a `JobOutcome`, or an `Error` for a failed job. If the handler throws, all jobs in the batch fail.
 */
export type BatchHandler<Handled, Result> = (
  jobs: readonly BatchJob<Handled>[],
) => BatchResults<Result> | Promise<BatchResults<Result>>

// biome-ignore lint/suspicious/noConfusingVoidType: a handler that returns nothing
export type BatchResults<Result> = readonly (Result | JobOutcome | Error)[] | undefined | void

export interface Batch {
  readonly size: number
  readonly waitMs: number
  readonly run: BatchHandler<unknown, unknown>
}
