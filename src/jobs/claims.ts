import type { JobMeta } from '../base/index.js'
import { arrayLiteral, type Epoch, lateEffectMs } from '../postgres/index.js'
import type { ImplementedJob } from './definition.js'
import type { Links } from './links.js'
import { noMeta } from './meta.js'
import type { JobStore } from './store.js'

/** Job in the format that `job_claim` returns. Omitted elements have their default values. */
export type ClaimedRow = [
  id: number,
  /** Index in the list `kinds`, starting at 1. */
  kind: number,
  input: unknown,
  priority?: number,
  failed?: number,
  crashes?: number,
  maxCrashes?: number,
  links?: Links | null,
  meta?: JobMeta,
  /** Input as JSON text. Set for large inputs only. */
  inputText?: string | undefined,
]

export interface ClaimRequest {
  readonly queues: readonly string[]
  readonly kinds: readonly string[]
  readonly maxJobs: number
  readonly announces: boolean
  /** Whether to look for priorities that have not been used before. */
  readonly isThorough: boolean
}

export interface ClaimResult {
  readonly state: 'claimed' | 'gone' | 'in-grace'
  readonly fence: number
  readonly isEmpty: boolean
  /**
   * Parses the jobs. Parsing large inputs takes long. If parsing fails, `returnUnanswered` returns the jobs to their
   * queues.
   */
  readonly parse: () => readonly ClaimedRow[]
  /** Whether no job that could be claimed was left after this claim. */
  readonly isDrained: boolean
}

/** Jobs that were claimed by one statement. */
export interface Claim {
  readonly epoch: Epoch
  readonly fence: number
  /** Number of jobs in the claim whose outcome has not been recorded yet. */
  unended: number
}

/** Job that this worker has claimed. */
export interface ClaimedJob {
  readonly claim: Claim
  readonly definition: ImplementedJob
  readonly id: number
  readonly input: unknown
  /** Input as JSON text. Set for large inputs, which are parsed when the job starts, because parsed inputs would fill the memory. */
  readonly inputText: string | undefined
  readonly failed: number
  readonly crashes: number
  readonly maxCrashes: number
  readonly links: Links | null
  readonly meta: JobMeta
}

/** Fields with which a statement checks that a claim still owns a job. */
export interface HeldJob {
  readonly id: number
  readonly claim: Claim
}

/** The first row describes the claim. Each further row contains one job's input, which is null in `jobs`. */
interface ClaimRow {
  readonly state: ClaimResult['state']
  readonly fence: string | null
  readonly jobs: string | null
  readonly is_drained: boolean
  readonly large_id: string
  readonly large_input: string
}

/**
 * Claims jobs for an epoch. The statement needs no session state, so any connection pooler works.
 */
export class Claims {
  readonly #store: JobStore
  /** Claims that have failed, by token. They may have succeeded on the server, or may still succeed. */
  readonly #unanswered = new Map<string, { readonly failedAt: number; checkAt: number }>()
  #token = Math.floor(Math.random() * 2 ** 40)

  constructor(store: JobStore) {
    this.#store = store
  }

  async claim(epoch: Epoch, asked: ClaimRequest): Promise<ClaimResult> {
    const token = String(this.#token++)
    try {
      const [row, ...large] = await this.#store.run<ClaimRow>('claim', [
        epoch.number,
        token,
        arrayLiteral(asked.queues),
        asked.kinds,
        asked.maxJobs,
        asked.announces,
        asked.isThorough,
      ])
      const { state, fence, jobs, is_drained: isDrained } = row!
      const parse = () => {
        try {
          const rows = JSON.parse(`[${jobs}]`) as ClaimedRow[]
          if (large.length > 0) {
            const texts = new Map(large.map((one) => [Number(one.large_id), one.large_input]))
            for (const one of rows) one[9] = texts.get(one[0])
          }
          return rows
        } catch (error) {
          this.#noteUnanswered(token)
          throw error
        }
      }
      return { state, fence: Number(fence), isEmpty: jobs === null, parse, isDrained }
    } catch (error) {
      this.#noteUnanswered(token)
      throw error
    }
  }

  #noteUnanswered(token: string): void {
    const now = performance.now()
    this.#unanswered.set(token, { failedAt: now, checkAt: now })
  }

  /**
   * Returns jobs to their queues if the response to their claim was lost. Resolves to the numbers of the follow-ups of jobs that
   * were cancelled in the meantime.
   */
  async returnUnanswered(epoch: Epoch): Promise<string | null> {
    const now = performance.now()
    const due = [...this.#unanswered].filter(([, { checkAt }]) => checkAt <= now)
    if (due.length === 0) return null
    const tokens = arrayLiteral(due.map(([token]) => token))
    const [row] = await this.#store.run<{ numbers: string | null }>('give_back', [epoch.number, tokens])
    for (const [token, claim] of due) {
      const age = now - claim.failedAt
      if (age > lateEffectMs) this.#unanswered.delete(token)
      // The intervals double, because many claims of a fleet may have failed at the same time.
      else claim.checkAt = now + age
    }
    return row!.numbers
  }
}

/** Converts a claim's row to a job. `definitions` has the same order as the claim's kinds. */
export function toClaimedJob(row: ClaimedRow, claim: Claim, definitions: readonly ImplementedJob[]): ClaimedJob {
  const [id, kind, input, , failed = 0, crashes = 0, maxCrashes = 3, links = null, meta = noMeta, inputText] = row
  const definition = definitions[kind - 1]!
  return { claim, definition, id, input, inputText, failed, crashes, maxCrashes, links, meta }
}
