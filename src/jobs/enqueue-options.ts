// Options for enqueueing jobs, and the rules that validate these options.
import {
  checkName,
  type Duration,
  duration,
  type Instant,
  type JobMeta,
  listOf,
  objectWith,
  oneOf,
  parseInstant,
  type readOptions,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import type { CallerTransaction } from '../postgres/index.js'
import { type BudgetUse, budgetsRule, groupRule, type JobGroup, mergeBudgets, type PlannedBudget } from './budgets.js'
import type { JobRef } from './job-ref.js'
import type { LanePolicy } from './lanes.js'
import type { Links } from './links.js'
import { metaRule } from './meta.js'
import { type JobRetryOptions, readOwnOptions, retryRule, timeoutRule } from './policy.js'
import { type UniqueOptions, uniqueRule } from './unique.js'

export const highestPriority = 5
export const lowestPriority = -5

export interface EnqueueOptions {
  /**
   * Your open transaction (see docs/guides/transactions.md). The job exists if and only if this transaction commits.
   */
  tx?: CallerTransaction | undefined
  /** The job's earliest start, as a delay from the database clock's current time. */
  delay?: Duration | undefined
  /** The job's earliest start, as a point in time. */
  runAt?: Instant | undefined
  /**
   * Deadline for the start, as a duration from the database clock's current time or as a point in time. If no worker has
   * claimed the job by then, the job ends as `expired` and never runs. The deadline does not apply to later attempts.
   */
  startBy?: Duration | Instant | undefined
  /** Retry options for this job. An option that is set here overrides the same option in the definition. */
  retry?: JobRetryOptions | undefined
  /** Time limit for each attempt of this job. Overrides the time limit in the definition. */
  timeout?: Duration | undefined
  /** Whole number from -5 to 5. Jobs with a larger number run first. The default is 0. */
  priority?: number | undefined
  /**
   * Idempotency key. At most one job with the same queue and kind has a given key. If such a job exists, no new job is
   * enqueued.
   */
  unique?: string | UniqueOptions | undefined
  /**
   * Name of the entity to which the job belongs, such as `shop:7`. The definition's `lanes` option limits how many
   * jobs in a lane run at the same time, across all processes. Jobs in a lane run in the order in which they entered
   * the lane.
   */
  lane?: string | undefined
  /**
   * Budgets that the job needs, in addition to the budgets in its definition. The job starts when all of these budgets
   * have room.
   */
  budgets?: readonly BudgetUse[] | undefined
  /**
   * Group to which the job belongs, such as `tenant:42`. Groups take turns: a group's first job waits for at most as many
   * jobs of each other group as that group's weight. Within a group, jobs start in order.
   */
  group?: JobGroup | undefined
  /** Jobs that must end before the new job. The new job may run when all these jobs are done or discarded. */
  after?: readonly (JobRef | number)[] | undefined
  /**
   * Behavior if a job in `after` is buried, cancelled or expired. `cancel`: this job is cancelled too. `run`: this job runs
   * anyway. `wait`: this job waits until the failed job has been retried and is done. The default is `cancel`.
   */
  ifFailed?: 'cancel' | 'run' | 'wait' | undefined
  /**
   * Small JSON object to store with the job, such as tags or a request ID. The handler reads it as `job.meta`, and searches find
   * it. At most 2,000 bytes of JSON.
   */
  meta?: JobMeta | undefined
}

export interface EnqueueManyOptions<Input> extends Omit<EnqueueOptions, 'unique'> {
  /** Function that returns the unique key for an input. */
  unique?: ((input: Input) => string) | UniqueOptions<(input: Input) => string> | undefined
}

/** Options for `job.enqueue` in a handler. The new job belongs to the attempt's transaction. */
export type ChildOptions = Omit<EnqueueOptions, 'tx'>

const maxDurationMs = 3_650 * 86_400_000

/** Rules of the options that `jobs.update` also has. */
export const timeRules = {
  delay: duration(0, maxDurationMs),
  runAt: {
    expected: 'a valid Date',
    read: parseInstant,
  },
  startBy: {
    expected: 'a duration or a valid Date',
    read: (given: unknown) => duration(1, maxDurationMs).read(given) ?? parseInstant(given),
  },
  priority: wholeNumber(lowestPriority, highestPriority),
}
export const childRules = {
  ...timeRules,
  retry: retryRule,
  timeout: timeoutRule,
  unique: uniqueRule,
  lane: { expected: 'a name', read: (given: unknown) => checkName(given, 'lane') },
  budgets: budgetsRule,
  group: groupRule,
  after: { expected: 'a list of enqueued jobs or of job ids', read: idsOf },
  ifFailed: oneOf('cancel', 'run', 'wait'),
  meta: metaRule,
}
const { unique: _, ...rest } = childRules
export const workflowRules = rest
export const enqueueRules = {
  ...childRules,
  tx: objectWith<CallerTransaction>('an open transaction'),
}

export type ParsedOptions = ReturnType<typeof readOptions<typeof childRules>>

/** Throws if a job would expire before it may run. A duration and a time cannot be compared without the database's clock. */
export function checkDeadline(
  startBy: number | Date | undefined,
  delay: number | undefined,
  runAt: Date | undefined,
): void {
  const isLater =
    typeof startBy === 'number' ? startBy > (delay ?? 0) : startBy === undefined || !runAt || startBy > runAt
  if (!isLater) throw new UsageError('Expected startBy to be later than the earliest start, got an earlier deadline')
}

export function linksOf(
  { lanes, budgets: always }: { readonly lanes: LanePolicy; readonly budgets: readonly PlannedBudget[] },
  { lane, budgets = [], group, after = [], ifFailed, retry, timeout }: ParsedOptions,
  keyOf: (budget: string) => string,
  more: Links = {},
): Links | undefined {
  const needed = mergeBudgets([...always, ...budgets])
  const links: Links = {
    ...(lane === undefined ? {} : { lane: { name: lane, ...lanes } }),
    ...(needed.length === 0 ? {} : { budgets: needed.map((one) => ({ key: keyOf(one.name), ...one })) }),
    ...(group === undefined ? {} : { group }),
    ...(after.length === 0 ? {} : { after }),
    ...(after.length === 0 || ifFailed === undefined || ifFailed === 'cancel' ? {} : { ifFailed }),
    own: readOwnOptions(retry, timeout),
    ...more,
  }
  return Object.values(links).some((link) => link !== undefined) ? links : undefined
}

function idsOf(given: unknown): number[] | undefined {
  const ids = listOf(given)?.map((one) => (typeof one === 'object' ? (one as JobRef | null)?.id : one))
  return ids?.every((id) => Number.isSafeInteger(id) && (id as number) > 0) ? [...new Set(ids as number[])] : undefined
}
