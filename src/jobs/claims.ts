import { arrayLiteral, type Epoch } from '../postgres/index.js'
import type { AnyDefinition } from './definition.js'
import type { Links } from './links.js'

/** How jobs are claimed. All workers of a queue must use the same mode. */
export type ClaimMode = 'rows' | 'advisory'

/** A job in the format of `job_claim` and `job_find_claimable`. Omitted elements have their default values. */
export type ClaimedRow = [
  id: number,
  /** Index in `kinds`, counted from 1. */
  kind: number,
  input: unknown,
  seq?: number,
  priority?: number,
  failed?: number,
  crashes?: number,
  maxCrashes?: number,
  links?: Links | null,
  cancelled?: string | null,
  /** Version (`xmin`) of the row that was read. */
  version?: number,
]

export interface ClaimRequest {
  /** Queue, priority and start position of each level, as three lists. */
  readonly queues: readonly string[]
  readonly priorities: readonly number[]
  readonly starts: readonly number[]
  readonly kinds: readonly string[]
  readonly maxJobs: number
  readonly announces: boolean
  readonly looksBack: boolean
}

export interface ClaimResult {
  readonly state: 'claimed' | 'gone' | 'in-grace'
  readonly fence: number
  readonly jobs: readonly ClaimedRow[]
  /** Position up to which each level was read. Undefined if no job was found. */
  readonly cursors: readonly number[] | undefined
  /** Whether no more jobs were found. */
  readonly isAll: boolean
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: number
}

/** A set of jobs that one statement claimed. */
export interface Claim {
  readonly epoch: Epoch
  readonly fence: number
  /** Number of jobs in the claim whose outcome is not recorded yet. */
  unended: number
}

/** A job that this worker has claimed. */
export interface ClaimedJob {
  readonly claim: Claim
  readonly definition: AnyDefinition
  readonly id: number
  /** Position in the queue. The job gets a new position each time it returns to the queue. */
  readonly seq: number
  readonly input: unknown
  readonly failed: number
  readonly crashes: number
  readonly maxCrashes: number
  readonly links: Links | null
  /** Reason of a cancellation that arrived while another claim had locked the job. Such a job must not run. */
  readonly cancelled: string | null
}

/** The fields that a statement uses to check that a claim still owns a job. */
export interface HeldJob {
  readonly id: number
  readonly seq: number
  readonly claim: Claim
}

/**
 * A way to claim jobs. `RowsClaims` writes epoch and fence on the rows of the jobs. `AdvisoryClaims` locks the jobs and
 * writes nothing on their rows. In both modes, a claim has one row of its own, which lists its jobs.
 */
export interface Claims {
  readonly mode: ClaimMode
  /** Maximum number of jobs that an instance may own at a time. */
  readonly maxClaimed: number
  /** Number of jobs that the instance may claim now. */
  readonly room: number
  claim(epoch: Epoch, asked: ClaimRequest): Promise<ClaimResult>
  /** Returns the `seq` that identifies the attempt. Undefined if the fence on the row identifies it. */
  seqOf(job: HeldJob): number | undefined
  /** Releases jobs that have ended or that another worker owns. */
  release(jobs: readonly HeldJob[]): void
  /** Returns jobs to their queues if the response to their claim was lost. */
  returnUnanswered(epoch: Epoch): Promise<void>
}

/** Returns the `seq` of each job as an SQL array. Empty if rows carry fences. */
export function seqsOf(claims: Claims, jobs: readonly HeldJob[]): string {
  return arrayLiteral(jobs.map((job) => claims.seqOf(job)).filter((place) => place !== undefined))
}
