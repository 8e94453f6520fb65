import { arrayLiteral, type Epoch } from '../postgres/index.js'
import type { AnyDefinition } from './definition.js'
import type { Links } from './links.js'

/** How jobs are claimed. All workers of a queue must use the same mode. */
export type ClaimMode = 'rows' | 'advisory'

/** A job as `job_claim` and `job_find_claimable` write it. Omitted elements have their default. */
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
  /** Position that each level was read to. Undefined if no job was found. */
  readonly cursors: readonly number[] | undefined
  /** Whether no further job was found. */
  readonly isAll: boolean
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: number
}

/** A set of jobs that one statement claimed. */
export interface Claim {
  readonly epoch: Epoch
  readonly fence: number
  /** Number of its jobs whose end is not recorded yet. */
  unended: number
}

/** A job that this worker has claimed. */
export interface ClaimedJob {
  readonly claim: Claim
  readonly definition: AnyDefinition
  readonly id: number
  /** Position in its queue. The job gets a new one each time it comes back. */
  readonly seq: number
  readonly input: unknown
  readonly failed: number
  readonly crashes: number
  readonly maxCrashes: number
  readonly links: Links | null
  /** Reason of a cancellation that arrived while another claim had locked the job. Such a job must not run. */
  readonly cancelled: string | null
}

/** The fields by which a statement checks that a claim still owns a job. */
export interface HeldJob {
  readonly id: number
  readonly seq: number
  readonly claim: Claim
}

/**
 * A way to claim jobs. `RowsClaims` writes epoch and fence on the rows of the jobs. `AdvisoryClaims` locks the jobs and
 * writes nothing on their rows. In both, a claim has one row of its own, which lists its jobs.
 */
export interface Claims {
  readonly mode: ClaimMode
  /** Maximum number of jobs that an instance may own at a time. */
  readonly maxClaimed: number
  /** Number of jobs that it may claim now. */
  readonly room: number
  claim(epoch: Epoch, asked: ClaimRequest): Promise<ClaimResult>
  /** Returns the `seq` that identifies the attempt. Undefined if the fence on the row identifies it. */
  seqOf(job: HeldJob): number | undefined
  /** Releases jobs that have ended or that another worker owns. */
  release(jobs: readonly HeldJob[]): void
  /** Returns jobs of claims whose response was lost. */
  returnUnanswered(epoch: Epoch): Promise<void>
}

/** Returns the `seq` of each job as an SQL array. Empty if rows carry fences. */
export function seqsOf(claims: Claims, jobs: readonly HeldJob[]): string {
  return arrayLiteral(jobs.map((job) => claims.seqOf(job)).filter((place) => place !== undefined))
}
