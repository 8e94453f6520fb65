import { arrayOf, type Life } from '../postgres/index.js'
import type { ClaimRequest, Claims, Found } from './claims.js'
import type { Ledger } from './ledger.js'

interface ClaimRow {
  readonly state: Found['state']
  readonly fence: string | null
  readonly jobs: string | null
  readonly passed: string | null
  readonly oldest: string | null
  readonly newest: string | null
  readonly last: string | null
}

/** Claims that write life and fence on the row of each job. They need no state of a session, so any pooler may stand between. */
export class RowsClaims implements Claims {
  readonly way = 'rows'
  readonly most = Number.POSITIVE_INFINITY
  readonly room = Number.POSITIVE_INFINITY
  readonly #ledger: Ledger
  /** Claims without an answer, by how they are called: since when they are known to have failed. */
  readonly #unanswered = new Map<string, number>()
  #token = Math.floor(Math.random() * 2 ** 40)

  constructor(ledger: Ledger) {
    this.#ledger = ledger
  }

  async claim(life: Life, asked: ClaimRequest): Promise<Found> {
    const token = String(this.#token++)
    this.#unanswered.set(token, Number.POSITIVE_INFINITY)
    try {
      const [row] = await this.#ledger.run<ClaimRow>('claim', [
        life.number,
        token,
        arrayOf(asked.queues),
        arrayOf(asked.priorities),
        arrayOf(asked.starts),
        asked.kinds,
        asked.most,
        asked.announces,
        asked.looksBack,
      ])
      this.#unanswered.delete(token)
      const { state, fence, jobs, passed, oldest, newest, last } = row!
      const found = jobs === null ? [] : JSON.parse(jobs)
      return {
        state,
        fence: Number(fence),
        jobs: found,
        passed: passed === null ? undefined : JSON.parse(passed),
        isAll: found.length < asked.most,
        oldest,
        newest,
        last: Number(last),
      }
    } catch (error) {
      // It may have been granted, or yet be, without our having heard of it.
      this.#unanswered.set(token, performance.now())
      throw error
    }
  }

  placeOf(): undefined {
    return undefined
  }

  release(): void {}

  async giveBackUnknown(life: Life): Promise<void> {
    const forgetBefore = performance.now() - 60_000
    const failed = [...this.#unanswered].filter(([, at]) => at !== Number.POSITIVE_INFINITY)
    if (failed.length === 0) return
    await this.#ledger.run('give_back', [life.number, arrayOf(failed.map(([token]) => token))])
    for (const [token, at] of failed) if (at < forgetBefore) this.#unanswered.delete(token)
  }
}
