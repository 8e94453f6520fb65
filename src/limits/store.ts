import { type Database, loadStatements, retryOnConflict, type Statement, sqlstate } from '../postgres/index.js'

interface LimitStoreOptions {
  readonly database: Database
  readonly schema: string
  readonly expiryMs: number
}

/** So many asks for each piece that is swept; a piece is more than they can have made. */
const requestsPerSweep = 1_000
const pagesPerSweep = 64
/** From place to place by the golden section, every part of a table is soon reached, also while it grows. */
const goldenSection = (Math.sqrt(5) - 1) / 2

/** How the room's statements are run, and its tables kept small as they are. */
export class LimitStore {
  readonly sql
  readonly #options: LimitStoreOptions
  #requests = Math.floor(Math.random() * requestsPerSweep)
  #sweepPosition = Math.random()
  #sweeping: Promise<unknown> | undefined

  constructor(options: LimitStoreOptions) {
    this.#options = options
    this.sql = loadStatements<'decide_permits' | 'check_waits' | 'decide_rates' | 'sweep' | 'usage'>(
      new URL('./limits.sql', import.meta.url),
      options.schema,
    )
  }

  /** The channel on which the fleet is told of grants. */
  get channel(): string {
    return this.#options.schema
  }

  run<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    // A row that somebody else inserts at the same time, and is slow to commit, is a collision, too.
    return retryOnConflict(() => database.query<Row>(statement.text, values, expiryMs), sqlstate.lockNotAvailable)
  }

  /** Sweeps a piece of the tables whenever so much has been asked. */
  countRequests(count: number): void {
    this.#requests += count
    if (this.#requests < requestsPerSweep || this.#sweeping) return
    this.#requests -= requestsPerSweep
    this.#sweepPosition = (this.#sweepPosition + goldenSection) % 1
    this.#sweeping = this.run(this.sql.sweep, [this.channel, this.#sweepPosition, pagesPerSweep])
      // The next piece will do.
      .catch(() => {})
      .finally(() => {
        this.#sweeping = undefined
      })
  }

  async close(): Promise<void> {
    await this.#sweeping
  }
}
