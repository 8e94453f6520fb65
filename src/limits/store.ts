import { type Database, loadStatements, retryOnConflict, type Statement, sqlstate } from '../postgres/index.js'

interface LimitStoreOptions {
  readonly database: Database
  readonly schema: string
  readonly expiryMs: number
}

/** Number of requests between two sweeps. The rows for these requests cannot fill the pages that one sweep covers. */
const requestsPerSweep = 1_000
const pagesPerSweep = 64
/**
 * Distance between two sweeps, as a fraction of the table. With the golden ratio, sweeps soon reach every part of a
 * table, even while the table is growing.
 */
const goldenSection = (Math.sqrt(5) - 1) / 2

/** Runs this module's statements and sweeps its tables. */
export class LimitStore {
  readonly sql
  #requests = Math.floor(Math.random() * requestsPerSweep)
  #sweepPosition = Math.random()
  #sweeping: Promise<unknown> | undefined

  constructor(readonly options: LimitStoreOptions) {
    this.sql = loadStatements<
      'decide_permit' | 'decide_permits' | 'check_waits' | 'decide_rate' | 'decide_rates' | 'sweep' | 'usage'
    >(new URL('./limits.sql', import.meta.url), options.schema)
  }

  /** Notification channel for grants. */
  get channel(): string {
    return this.options.schema
  }

  run<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.options
    // A lock timeout during a slow concurrent insert of the same row also counts as a conflict.
    return retryOnConflict(() => database.query<Row>(statement.text, values, expiryMs), sqlstate.lockNotAvailable)
  }

  /** Counts requests. After every `requestsPerSweep` requests, sweeps a few pages of each table. */
  countRequests(count: number): void {
    this.#requests += count
    if (this.#requests < requestsPerSweep || this.#sweeping) return
    this.#requests -= requestsPerSweep
    this.#sweepPosition = (this.#sweepPosition + goldenSection) % 1
    this.#sweeping = this.run(this.sql.sweep, [this.channel, this.#sweepPosition, pagesPerSweep])
      .catch(() => {})
      .finally(() => {
        this.#sweeping = undefined
      })
  }

  async close(): Promise<void> {
    await this.#sweeping
  }
}
