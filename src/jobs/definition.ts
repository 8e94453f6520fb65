// What a definition of jobs is, and what its handler is given. These types refer to each other: a handler may enqueue jobs of any definition.
import type { Duration } from '../base/index.js'
import type { Transaction } from '../once/index.js'
import type { ChildOptions } from './enqueue-options.js'
import type { JobRef } from './job-ref.js'
import type { LanePolicy } from './lanes.js'
import type { JobOutcome } from './outcome.js'
import type { JobParent } from './parents.js'
import type { Schema } from './schema.js'

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

/** A kind of job: its name, how its input is checked, how often it is tried, and what it does. */
export interface JobDefinition<Input = unknown, Handled = Input, Result = unknown> {
  readonly kind: string
  readonly queue: string
  readonly attempts: number
  readonly backoffMs: number
  readonly maxBackoffMs: number
  readonly timeoutMs: number | undefined
  readonly maxCrashes: number
  readonly lanes: LanePolicy
  readonly schema: Schema<Input, Handled> | undefined
  /** How it takes many jobs at once; `run` does it for one. */
  readonly batch?: Batch<Handled, Result> | undefined
  readonly run: (input: Handled, job: JobContext) => Promise<Result | JobOutcome> | Result | JobOutcome
}

// biome-ignore lint/suspicious/noExplicitAny: where definitions of all types meet; a handler takes less than `unknown`
export type AnyDefinition = JobDefinition<any, any, any>

export interface BatchOptions {
  /** How many jobs the handler is given at most. */
  size: number
  /** How long to wait for a batch to become full. Default: not at all; it gets what is there. */
  wait?: Duration | undefined
}

/** One job of a batch. Each has its own attempts, its own signal and its own end. */
export interface BatchJob<Input = unknown>
  extends Pick<JobContext, 'id' | 'kind' | 'attempt' | 'fence' | 'signal' | 'progress' | 'log'> {
  readonly input: Input
}

/**
 * The handler of a batch. Returns nothing when all is done, or for each job, in order, its result: a value, a `JobOutcome`,
 * or an `Error` when that one has failed. What it throws, all have failed of.
 */
export type BatchHandler<Handled, Result> = (
  jobs: readonly BatchJob<Handled>[],
) => BatchResults<Result> | Promise<BatchResults<Result>>

// biome-ignore lint/suspicious/noConfusingVoidType: a handler that returns nothing
type BatchResults<Result> = readonly (Result | JobOutcome | Error)[] | undefined | void

export interface Batch<Handled = unknown, Result = unknown> {
  readonly size: number
  readonly waitMs: number
  readonly run: BatchHandler<Handled, Result>
}
