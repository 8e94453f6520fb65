// How a caller may ask for a job to be enqueued, and how that is read.
import { checkName, type Duration, duration, objectWith, oneOf, type readOptions, wholeNumber } from '../base/index.js'
import type { CallerTransaction } from '../postgres/index.js'
import { highestPriority, lowestPriority } from './cursors.js'
import type { JobRef } from './job-ref.js'
import type { LanePolicy } from './lanes.js'
import type { Links } from './links.js'
import { type UniqueOptions, uniqueRule } from './unique.js'

export interface EnqueueOptions {
  /** An open transaction of yours (see docs/guides/transactions.md): the job is there when it commits, and only then. */
  tx?: CallerTransaction | undefined
  /** Not before so long from now, on the clock of the database. */
  delay?: Duration | undefined
  /** Not before this moment. */
  runAt?: Date | undefined
  /** Larger goes first: a whole number from -5 to 5. Default 0. */
  priority?: number | undefined
  /** A key that only one job of its queue and kind has at a time: the job is enqueued, or it is there already. */
  unique?: string | UniqueOptions | undefined
  /**
   * The entity that it is about, such as `shop:7`: of the jobs of one lane of a queue only so many run at once as the
   * definition says (`lanes`), in all processes together, in the order in which they came.
   */
  lane?: string | undefined
  /** Jobs that have to end before: those are done, or were discarded, then it may run. */
  after?: readonly (JobRef | number)[] | undefined
  /**
   * What becomes of it when one of these fails, that is, ends as buried or cancelled. `cancel`: it is cancelled, too, and so
   * on. `run`: it runs all the same. `wait`: it waits until that one was retried, and is done. Default `cancel`.
   */
  ifFailed?: 'cancel' | 'run' | 'wait' | undefined
}

export interface EnqueueManyOptions<Input> extends Omit<EnqueueOptions, 'unique'> {
  /** What gives the key of an input. */
  unique?: ((input: Input) => string) | UniqueOptions<(input: Input) => string> | undefined
}

/** As for `jobs.enqueue`; the transaction is that of the job. */
export type ChildOptions = Omit<EnqueueOptions, 'tx'>

const maxDurationMs = 3_650 * 86_400_000

/** For a job of a handler, whose transaction is that of its attempt. */
export const childRules = {
  delay: duration(0, maxDurationMs),
  runAt: {
    expected: 'a valid Date',
    read: (given: unknown) => (given instanceof Date && !Number.isNaN(given.getTime()) ? given : undefined),
  },
  priority: wholeNumber(lowestPriority, highestPriority),
  unique: uniqueRule,
  lane: { expected: 'a name', read: (given: unknown) => checkName(given, 'lane') },
  after: { expected: 'a list of jobs that were enqueued, or of their ids', read: idsOf },
  ifFailed: oneOf('cancel', 'run', 'wait'),
}
const { unique: _, ...rest } = childRules
/** For a job of a workflow. */
export const workflowRules = rest
export const enqueueRules = {
  ...childRules,
  tx: objectWith<CallerTransaction>('an open transaction'),
}

/** What was asked for, as it was read. */
export type ParsedOptions = ReturnType<typeof readOptions<typeof childRules>>

/** What links a job to others; undefined for nothing. */
export function linksOf(
  { lanes }: { readonly lanes: LanePolicy },
  { lane, after = [], ifFailed }: ParsedOptions,
  more: Links = {},
): Links | undefined {
  const links: Links = {
    ...(lane === undefined ? {} : { lane: { name: lane, ...lanes } }),
    ...(after.length === 0 ? {} : { after }),
    ...(after.length === 0 || ifFailed === undefined || ifFailed === 'cancel' ? {} : { ifFailed }),
    ...more,
  }
  return Object.values(links).some((link) => link !== undefined) ? links : undefined
}

function idsOf(given: unknown): number[] | undefined {
  if (!Array.isArray(given)) return undefined
  const ids = given.map((one: unknown) => (typeof one === 'object' ? (one as JobRef | null)?.id : one))
  return ids.every((id) => Number.isSafeInteger(id) && (id as number) > 0) ? [...new Set(ids as number[])] : undefined
}
