import type { LanePolicy } from './lanes.js'

/**
 * A job's links to other jobs. Null for most jobs. Each kind of link has a member here, a step in `job_admit` (the
 * condition for the job to run) and a step in `job_release_links` (the effect on other jobs when this job leaves).
 */
export interface Links {
  /** Lane and its limits. The database adds the key. */
  readonly lane?: (LanePolicy & { readonly name: string }) | undefined
  /** Jobs that must end first. */
  readonly after?: readonly number[] | undefined
  /** Behavior if one of these jobs fails. Undefined: the job is cancelled. */
  readonly ifFailed?: 'run' | 'wait' | undefined
  /** Whether the jobs in `after` have ended. */
  readonly met?: boolean | undefined
  /** Whether other jobs wait for this job. */
  readonly awaited?: boolean | undefined
  /** ID of its workflow, which is the ID of the first job. */
  readonly workflow?: number | undefined
  /** Span that enqueued the job, as a W3C traceparent. It never delays the job. */
  readonly trace?: string | undefined
  /** Unique key that the job holds, and when the key ends. */
  readonly unique?: { readonly key: string; readonly until: string } | undefined
}
