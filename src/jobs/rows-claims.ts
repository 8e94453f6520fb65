import { arrayLiteral, type Epoch } from '../postgres/index.js'
import type { ClaimRequest, ClaimResult, Claims } from './claims.js'
import type { JobStore } from './store.js'

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
 * Claims that write the epoch and the fencing token to each job's row. These claims need no session state, so any
 * connection pooler works.
 */
export class RowsClaims implements Claims {
  readonly mode = 'rows'
  readonly maxClaimed = Number.POSITIVE_INFINITY
  readonly room = Number.POSITIVE_INFINITY
  readonly #store: JobStore
  /**
   * Tokens of claims that have not received a response. The value is the time of the failure, or infinity while the
   * claim is running.
   */
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
      // The claim may have succeeded on the server, or may still succeed.
      this.#unanswered.set(token, performance.now())
      throw error
    }
  }

  seqOf(): undefined {
    return undefined
  }

  release(): void {}

  async returnUnanswered(epoch: Epoch): Promise<void> {
    const forgetBefore = performance.now() - 60_000
    const failed = [...this.#unanswered].filter(([, at]) => at !== Number.POSITIVE_INFINITY)
    if (failed.length === 0) return
    await this.#store.run('give_back', [epoch.number, arrayLiteral(failed.map(([token]) => token))])
    for (const [token, at] of failed) if (at < forgetBefore) this.#unanswered.delete(token)
  }
}
