import { backoffMs, pause } from '../base/index.js'
import { type TransactionStatements, transactionStatements } from '../once/index.js'
import { type Database, type Executor, loadStatements, type Statement, sqlstateOf } from '../postgres/index.js'

export interface LedgerOptions {
  readonly database: Database
  readonly schema: string
  readonly expiryMs: number
}

type Name =
  | 'enqueue'
  | 'enqueue_later'
  | 'know_queue'
  | 'enlist'
  | 'sleep'
  | 'leave'
  | 'claim'
  | 'done'
  | 'end'
  | 'start'
  | 'watch'
  | 'note'
  | 'give_back'
  | 'round'
  | 'days'
  | 'find'
  | 'ended'
  | 'cancel'
  | 'retry'
  | 'redrive'
  | 'pause'

/** Where snapshots are kept for whole transactions, what others changed meanwhile fails a statement; then nothing happened. */
const collisions = ['40001', '40P01'] as (string | undefined)[]
const mostCollisions = 30

/** How the room's statements are run. */
export class Ledger {
  readonly sql: Record<Name, Statement>
  readonly transactionStatements: TransactionStatements
  readonly #options: LedgerOptions

  constructor(options: LedgerOptions) {
    this.#options = options
    this.transactionStatements = transactionStatements(options.schema)
    this.sql = loadStatements<Name>(new URL('./jobs.sql', import.meta.url), options.schema)
  }

  get database(): Database {
    return this.#options.database
  }

  get expiryMs(): number {
    return this.#options.expiryMs
  }

  async run<Row>(name: Name, values: readonly unknown[]): Promise<Row[]> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#options.database.query<Row>(this.sql[name].text, values, this.#options.expiryMs)
      } catch (error) {
        if (!collisions.includes(sqlstateOf(error)) || attempt >= mostCollisions) throw error
        await pause(backoffMs(attempt, 2, 50))
      }
    }
  }

  runIn<Row>(tx: Executor, name: Name, values: readonly unknown[]): Promise<Row[]> {
    return tx.query<Row>(this.sql[name].text, values)
  }
}

/** An array of numbers, or of keys in decimal, as PostgreSQL reads it from text. */
export function arrayOf(values: readonly (number | string)[]): string {
  return `{${values.join(',')}}`
}
