import {
  awaited,
  checkName,
  type Duration,
  describe,
  duration,
  isThenable,
  longestTimerMs,
  made,
  parseDuration,
  readOptions,
  textOf,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import { eachNs, type Rate, rateRule } from '../limits/index.js'
import type { Transaction } from '../once/index.js'
import { type Batch, type BatchHandler, type BatchOptions, readBatch, runAlone } from './batches.js'
import type { EnqueueOptions, JobRef } from './enqueue-options.js'
import { InvalidInputError } from './errors.js'
import type { JobParent } from './workflows.js'

/** A schema of any library that keeps to standardschema.dev (Zod, Valibot, ArkType …). */
export interface Schema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Verdict<Output> | Promise<Verdict<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type Verdict<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] }

/** What a handler is given beside its input. */
export interface JobContext {
  readonly id: number
  readonly kind: string
  /** Counts from 1: failed attempts, and crashes of workers, plus one. */
  readonly attempt: number
  /** Larger than that of every earlier attempt of the job. */
  readonly fence: number
  /** Aborts when the work should stop: `JobCancelledError`, `JobTimeoutError`, `JobLostError` or `DrainingError`. */
  readonly signal: AbortSignal
  /** Writes that commit together with the end of the job, exactly once. The transaction begins with the first query. */
  readonly tx: Transaction
  /**
   * Enqueues a job by `tx`: it is there when the end of this attempt is recorded, and not when the attempt fails or is
   * lost. The transaction stays open from here to the end of the attempt: enqueue last.
   */
  enqueue<Input>(
    // biome-ignore lint/suspicious/noExplicitAny: whatever its handler takes and returns
    definition: JobDefinition<Input, any, any>,
    input: Input,
    options?: ChildOptions,
  ): Promise<JobRef>
  /** The jobs that it waited for, in the order of `after`, and what came of them. */
  parents(): Promise<JobParent[]>
  /** Says how far it is, as a number of your own meaning. Seen by `jobs.find` a moment later. */
  progress(value: number): void
  /** Adds a line to the log of the job. The last hundred are kept. */
  log(line: string): void
}

/** As for `jobs.enqueue`; the transaction is that of the job. */
export type ChildOptions = Omit<EnqueueOptions, 'tx'>

export interface RetryOptions {
  /** How many attempts may fail before the job is buried. Default 5. */
  attempts?: number | undefined
  /** The pause after the first failure, doubled with each further one, the upper half of it at random. Default `1s`. */
  backoff?: Duration | undefined
  /** The longest pause. Default `1h`. */
  longest?: Duration | undefined
}

/** What holds for each lane of a definition. Lanes are named when jobs are enqueued. */
export interface LaneOptions {
  /** How many jobs of a lane may run at once, in all processes together. Default 1. */
  max?: number | undefined
  /** How many may begin in a while: `'100/min'`, `'5/s'`, or a count and any duration. */
  rate?: Rate | undefined
  /** How many of the rate may begin at once, after a rest. Default: its count. */
  burst?: number | undefined
}

/** How lanes are limited, as it is written with each job. */
export interface LanePolicy {
  readonly max: number
  /** Microseconds that one job takes of the rate. */
  readonly every?: number
  readonly burst?: number
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
  run: (input: Handled, job: JobContext) => Promise<Result | Outcome> | Result | Outcome
  batch?: undefined
}

/** A handler that takes many jobs at once. */
export interface BatchJobOptions<Input, Handled, Result>
  extends Omit<JobOptions<Input, Handled, Result>, 'run' | 'batch'> {
  batch: BatchOptions
  run: BatchHandler<Handled, Result>
}

/** A kind of job: its name, how its input is checked, how often it is tried, and what it does. */
export interface JobDefinition<Input = unknown, Handled = Input, Result = unknown> {
  readonly kind: string
  readonly queue: string
  readonly attempts: number
  readonly backoffMs: number
  readonly longestMs: number
  readonly timeoutMs: number | undefined
  readonly maxCrashes: number
  readonly lanes: LanePolicy
  readonly schema: Schema<Input, Handled> | undefined
  /** How it takes many jobs at once; `run` does it for one. */
  readonly batch?: Batch<Handled, Result> | undefined
  readonly run: (input: Handled, job: JobContext) => Promise<Result | Outcome> | Result | Outcome
}

// biome-ignore lint/suspicious/noExplicitAny: where definitions of all types meet; a handler takes less than `unknown`
export type AnyDefinition = JobDefinition<any, any, any>

const longestMs = 3_650 * 86_400_000

const rules = {
  input: made<Schema>('a schema that keeps to standardschema.dev', '~standard'),
  queue: { expected: 'a name', read: (given: unknown) => checkName(given, 'queue') },
  retry: { expected: 'an object', read: (given: unknown) => given },
  timeout: duration(1, longestTimerMs),
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
  longest: 'retry.longest',
}
const retryRules = {
  attempts: wholeNumber(1, 1_000_000),
  backoff: duration(0, longestMs),
  longest: duration(0, longestMs),
}
const laneRules = {
  max: wholeNumber(1, 1_000_000),
  rate: rateRule,
  burst: wholeNumber(1, 1_000_000),
}

function lanePolicy(given: unknown): LanePolicy {
  const { max = 1, rate, burst = rate?.count ?? 1 } = readOptions('lanes', given, laneRules)
  if (rate === undefined) {
    if ((given as LaneOptions | undefined)?.burst === undefined) return { max }
    throw new UsageError('Expected a rate with burst, which says how much of it may be taken at once')
  }
  return { max, every: Number((eachNs(rate, burst) + 999n) / 1_000n), burst }
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
  const { attempts = 5, backoff = 1_000, longest = 3_600_000 } = readOptions('retry', retry, retryRules)
  if (run === undefined) throw new UsageError(`Expected run to be a function, got ${describe(options?.run)}`)
  const batch = given === undefined ? undefined : readBatch(given, run as BatchHandler<unknown, unknown>)
  return Object.freeze({
    kind: checkName(kind, 'the name of the job'),
    queue,
    attempts,
    backoffMs: backoff,
    longestMs: longest,
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
  return isThenable(verdict) ? awaited(verdict).then((one) => accepted(kind, one)) : accepted(kind, verdict)
}

function accepted(kind: string, verdict: Verdict<unknown>): unknown {
  if (!verdict.issues) return verdict.value
  const issues = verdict.issues.map(({ message, path = [] }) => ({
    message,
    path: path.map((part) => textOf((part as { key?: unknown } | null)?.key ?? part)).join('.'),
  }))
  throw new InvalidInputError(kind, issues)
}

/** What a handler may return in the place of a result. */
export class Outcome {
  readonly #isMade = true

  /** @internal */
  constructor(
    readonly state: 'retried' | 'cancelled' | 'discarded',
    readonly reason: string,
    readonly delayMs: number,
  ) {
    Object.freeze(this)
  }

  /** @internal Whether it was made here. Cannot be forged, and runs no code of the value, whatever that is. */
  static is(value: unknown): value is Outcome {
    return typeof value === 'object' && value !== null && #isMade in value
  }
}

/**
 * Returned by a handler: not now, but after a while. It counts as no failure.
 *
 * @example
 * if (response.status === 429) return retryAfter('30s')
 */
export function retryAfter(delay: Duration): Outcome {
  const ms = parseDuration(delay)
  if (ms === undefined || ms > longestMs) {
    throw new UsageError(`Expected the time of retryAfter to be a duration, got ${describe(delay)}`)
  }
  return new Outcome('retried', '', ms)
}

/**
 * Returned by a handler: the job ends as cancelled.
 *
 * @example
 * if (order.isCancelled) return cancel('the order was cancelled')
 */
export function cancel(reason = 'Cancelled by its handler'): Outcome {
  return new Outcome('cancelled', textOf(reason), 0)
}

/**
 * Returned by a handler: there is nothing to do, and nothing went wrong.
 *
 * @example
 * if (user === undefined) return discard('the user is gone')
 */
export function discard(reason = 'Discarded by its handler'): Outcome {
  return new Outcome('discarded', textOf(reason), 0)
}
