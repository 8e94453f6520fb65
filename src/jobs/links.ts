import type { PlannedBudget } from './budgets.js'
import type { LanePolicy } from './lanes.js'
import type { OwnOptions } from './policy.js'

/**
 * A job's links to other jobs. Most jobs have no links. Each kind of link has a property in this interface, a step in
 * `job_admit` that checks whether the job may run, and a step in `job_release_links` that updates the other jobs when
 * this job ends.
 */
export interface Links {
  /** The job's lane and the lane's limits. The database adds the lane's key. */
  readonly lane?: (LanePolicy & { readonly name: string }) | undefined
  /** The budgets that the job needs at the same time. The database adds the round of a job with a group. */
  readonly budgets?: readonly (PlannedBudget & { readonly key: string })[] | undefined
  /** The job's group, which determines when its turn in a budget comes. */
  readonly group?: { readonly name: string; readonly weight: number } | undefined
  /** IDs of the jobs that must end before this job. */
  readonly after?: readonly number[] | undefined
  /** Behavior if a job in `after` fails. If undefined, this job is cancelled. */
  readonly ifFailed?: 'run' | 'wait' | undefined
  /** Whether all jobs in `after` have ended. */
  readonly met?: boolean | undefined
  /** ID of the job's workflow, which is the ID of the workflow's first job. */
  readonly workflow?: number | undefined
  /** Tracing span that enqueued the job, as a W3C traceparent. This link never delays the job. */
  readonly trace?: string | undefined
  /** Time until which a worker must claim the job, as a timestamp. A job that has been claimed has no deadline. */
  readonly startBy?: string | undefined
  /** Options that override the definition's options. They never delay the job. */
  readonly own?: OwnOptions | undefined
  /** Unique key that the job holds, and the time when the key becomes free. */
  readonly unique?: { readonly key: string; readonly until: string } | undefined
}
