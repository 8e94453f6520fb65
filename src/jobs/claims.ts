import { arrayLiteral, type Epoch } from '../postgres/index.js'
import type { AnyDefinition } from './definition.js'
import type { Links } from './links.js'
import type { JobStore } from './store.js'

/** Job in the format that `job_claim` returns. Omitted elements have their default values. */
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
  readonly input: unknown
  readonly failed: number
  readonly crashes: number
  readonly maxCrashes: number
  readonly links: Links | null
}

/** Fields with which a statement checks that a claim still owns a job. */
export interface HeldJob {
  readonly id: number
  readonly claim: Claim
}

interface ClaimRow {
  readonly state: ClaimResult['state']
  readonly fence: string | null
  readonly jobs: string | null
  readonly new_cursors: string | null
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: string | null
}

/**
 * Claims that write the epoch and the fencing token to each job's row. They need no session state, so any connection
 * pooler works.
 */
export class Claims {
  readonly #store: JobStore
  /** Tokens of claims without a response. Value: time of the failure, or infinity while the claim runs. */
  readonly #unanswered = new Map<string, number>()
  #token = Math.floor(Math.random() * 2 ** 40)

  constructor(store: JobStore) {
    this.#store = store
  }

  async claim(epoch: Epoch, asked: ClaimRequest): Promise<ClaimResult> {
    const token = String(this.#token++)
    this.#unanswered.set(token, Number.POSITIVE_INFINITY)
    try {
      const [row] = await this.#store.run<ClaimRow>('claim', [
        epoch.number,
        token,
        arrayLiteral(asked.queues),
        arrayLiteral(asked.priorities),
        arrayLiteral(asked.starts),
        asked.kinds,
        asked.maxJobs,
        asked.announces,
        asked.looksBack,
      ])
      this.#unanswered.delete(token)
      const { state, fence, jobs, new_cursors, oldest, newest, last } = row!
      const found = jobs === null ? [] : JSON.parse(jobs)
      return {
        state,
        fence: Number(fence),
        jobs: found,
        cursors: new_cursors === null ? undefined : JSON.parse(new_cursors),
        isAll: found.length < asked.maxJobs,
        oldest,
        newest,
        last: Number(last),
      }
    } catch (error) {
      // The claim may have succeeded, or may still succeed.
      this.#unanswered.set(token, performance.now())
      throw error
    }
  }

  /** Gives jobs back to their queues if the response to their claim was lost. */
  async returnUnanswered(epoch: Epoch): Promise<void> {
    const forgetBefore = performance.now() - 60_000
    const failed = [...this.#unanswered].filter(([, at]) => at !== Number.POSITIVE_INFINITY)
    if (failed.length === 0) return
    await this.#store.run('give_back', [epoch.number, arrayLiteral(failed.map(([token]) => token))])
    for (const [token, at] of failed) if (at < forgetBefore) this.#unanswered.delete(token)
  }
}
