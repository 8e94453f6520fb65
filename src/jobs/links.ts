import type { LanePolicy } from './lanes.js'

/**
 * What links a job to others, as it is written beside it: null for most jobs. Each kind of link has a member here, a step in
 * job_admit (what must be so before the job may run), and a step in job_release_links (what follows for others when it leaves).
 */
export interface Links {
  /** Its lane, and what its definition says of lanes. The database adds the key. */
  readonly lane?: (LanePolicy & { readonly name: string }) | undefined
  /** The jobs that have to end before. */
  readonly after?: readonly number[] | undefined
  /** What becomes of it when one of them fails; it is cancelled, if nothing is said. */
  readonly ifFailed?: 'run' | 'wait' | undefined
  /** Those that it waited for have ended. */
  readonly met?: boolean | undefined
  /** Others wait for it. */
  readonly awaited?: boolean | undefined
  /** The workflow that it belongs to: the id of its first job. */
  readonly workflow?: number | undefined
  /** The span that enqueued it, as W3C writes it. It links the job to nothing that it would have to wait for. */
  readonly trace?: string | undefined
  /** The key that no other job of its queue and kind has meanwhile. */
  readonly unique?: { readonly key: string; readonly until: string } | undefined
}
