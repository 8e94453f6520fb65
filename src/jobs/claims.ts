import { arrayLiteral, type Epoch } from '../postgres/index.js'
import type { AnyDefinition } from './definition.js'
import type { Links } from './links.js'

/** Mode in which jobs are claimed. All workers of a queue must use the same mode. */
export type ClaimMode = 'rows' | 'advisory'

/** Job in the format that `job_claim` and `job_find_claimable` return. Omitted elements have their default values. */
export type ClaimedRow = [
  id: number,
  /** Index in the list `kinds`, starting at 1. */
  kind: number,
  input: unknown,
  seq?: number,
  priority?: number,
  failed?: number,
  crashes?: number,
  maxCrashes?: number,
  links?: Links | null,
  cancelled?: string | null,
  /** Version (`xmin`) of the job's row at the time of the read. */
  version?: number,
]

export interface ClaimRequest {
  /** The queues, priorities and start positions of all levels, as three lists. */
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
  /** Positions up to which the levels were read. Undefined if no job was found. */
  readonly cursors: readonly number[] | undefined
  /** Whether the claim reached the end of the queue, so that no more jobs were found. */
  readonly isAll: boolean
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: number
}

/** Set of jobs that were claimed by one statement. */
export interface Claim {
  readonly epoch: Epoch
  readonly fence: number
  /** Number of jobs in the claim whose outcome has not been recorded yet. */
  unended: number
}

/** Job that this worker has claimed. */
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
  /** Reason for a cancellation that arrived while another claim had locked the job. The cancelled job must not run. */
  readonly cancelled: string | null
}

/** Fields with which a statement checks that a claim still owns a job. */
export interface HeldJob {
  readonly id: number
  readonly seq: number
  readonly claim: Claim
}

/**
 * Claims jobs in one of two modes. `RowsClaims` writes the epoch and the fencing token to the jobs' rows.
 * `AdvisoryClaims` locks the jobs and does not write to their rows. In both modes, each claim also has a row of its
 * own, which lists the claimed jobs.
 */
export interface Claims {
  readonly mode: ClaimMode
  /** Maximum number of jobs that an instance may own at the same time. */
  readonly maxClaimed: number
  /** Number of jobs that the instance may claim now. */
  readonly room: number
  claim(epoch: Epoch, asked: ClaimRequest): Promise<ClaimResult>
  /**
   * Returns the `seq` that identifies the job's current attempt. Undefined if the fencing token in the job's row
   * identifies the attempt.
   */
  seqOf(job: HeldJob): number | undefined
  /** Releases jobs that have ended or that another worker owns. */
  release(jobs: readonly HeldJob[]): void
  /** Gives jobs back to their queues if the response to their claim was lost. */
  returnUnanswered(epoch: Epoch): Promise<void>
}

/** Returns the `seq` of each job as an SQL array. The array is empty if the jobs' rows contain fencing tokens. */
export function seqsOf(claims: Claims, jobs: readonly HeldJob[]): string {
  return arrayLiteral(jobs.map((job) => claims.seqOf(job)).filter((place) => place !== undefined))
}
