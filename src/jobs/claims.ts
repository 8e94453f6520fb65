import { arrayLiteral, type Epoch } from '../postgres/index.js'
import type { AnyDefinition } from './definition.js'
import type { Links } from './links.js'

/** How jobs are claimed. All that serve a queue at one time must do it in one way. */
export type ClaimMode = 'rows' | 'advisory'

/** As job_claim and job_find_claimable write it; what is left out is the usual. */
export type ClaimedRow = [
  id: number,
  /** Which of the kinds, counted from 1. */
  kind: number,
  input: unknown,
  seq?: number,
  priority?: number,
  failed?: number,
  crashes?: number,
  maxCrashes?: number,
  links?: Links | null,
  cancelled?: string | null,
  /** Which version of its row was seen. */
  version?: number,
]

/** What a claim is to take, and from where. */
export interface ClaimRequest {
  /** The queue and the priority of each level, and from where it is read. */
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
  /** How far each level was read; undefined when nothing was found. */
  readonly cursors: readonly number[] | undefined
  /** Whether nothing more was there. */
  readonly isAll: boolean
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: number
}

/** A claim: jobs that were claimed by one statement. */
export interface Claim {
  readonly epoch: Epoch
  readonly fence: number
  /** How many of its jobs have no recorded end yet. */
  unended: number
}

/** A job that this worker has claimed. */
export interface ClaimedJob {
  readonly claim: Claim
  readonly definition: AnyDefinition
  readonly id: number
  /** Its place in the order of its queue; another one each time that it comes back. */
  readonly seq: number
  readonly input: unknown
  readonly failed: number
  readonly crashes: number
  readonly maxCrashes: number
  readonly links: Links | null
  /** Why it is not to run: somebody cancelled it while another had locked it for a claim that came to nothing. */
  readonly cancelled: string | null
}

/** What a statement must know of a job to find out whether it still is whose it was. */
export interface HeldJob {
  readonly id: number
  readonly seq: number
  readonly claim: Claim
}

/**
 * A way to claim jobs. There are two: `RowsClaims` writes epoch and fence on the rows of the jobs; `AdvisoryClaims` locks the
 * jobs, and writes nothing on their rows. Either way a claim has one row of its own, which leads to its jobs.
 */
export interface Claims {
  readonly mode: ClaimMode
  /** How many jobs an instance may have claimed at a time. */
  readonly maxClaimed: number
  /** How many more it may claim now. */
  readonly room: number
  claim(epoch: Epoch, asked: ClaimRequest): Promise<ClaimResult>
  /** The place in the order by which a job is known, where a claim writes no fence on its row. */
  seqOf(job: HeldJob): number | undefined
  /** Jobs that are not this worker's any more: their end is recorded, or somebody else has them. */
  release(jobs: readonly HeldJob[]): void
  /** Gives back what was claimed by statements whose answers never arrived. */
  returnUnanswered(epoch: Epoch): Promise<void>
}

/** The places of jobs, for statements; empty where rows carry fences. */
export function seqsOf(claims: Claims, jobs: readonly HeldJob[]): string {
  return arrayLiteral(jobs.map((job) => claims.seqOf(job)).filter((place) => place !== undefined))
}
