import { type TransactionStatements, transactionStatements } from '../once/index.js'
import {
  type Database,
  despiteCollisions,
  type Executor,
  loadStatements,
  type Statement,
  sqlstate,
} from '../postgres/index.js'

export interface LedgerOptions {
  readonly database: Database
  readonly schema: string
  readonly expiryMs: number
}

type Name =
  | 'enqueue'
  | 'enqueue_later'
  | 'enqueue_tied'
  | 'enqueue_unique'
  | 'know_queue'
  | 'enlist'
  | 'sleep'
  | 'leave'
  | 'stop_claiming'
  | 'claim'
  | 'look'
  | 'take'
  | 'unlock'
  | 'unlock_others'
  | 'done'
  | 'end'
  | 'start'
  | 'watch'
  | 'note'
  | 'give_back'
  | 'tie_up'
  | 'numbers'
  | 'last_number'
  | 'enqueue_workflow'
  | 'imported'
  | 'states'
  | 'workflow'
  | 'waits_for'
  | 'round'
  | 'days'
  | 'find'
  | 'ended'
  | 'cancel'
  | 'retry'
  | 'redrive'
  | 'pause'

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

  run<Row>(name: Name, values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    // What ends while the table of its day is made misses it by a hair, and finds it when it is asked again.
    return despiteCollisions(() => database.query<Row>(this.sql[name].text, values, expiryMs), sqlstate.checkViolation)
  }

  /** Of those that look at many rows: see `Database.read`. */
  read<Row>(name: 'states' | 'workflow' | 'waits_for', values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    return database.read<Row>(this.sql[name].text, values, expiryMs)
  }

  /** Of those that change what many rows have to be looked at for: see `Database.write`. */
  write<Row>(name: 'retry' | 'redrive', values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    return despiteCollisions(() => database.write<Row>(this.sql[name].text, values, expiryMs), sqlstate.checkViolation)
  }

  runIn<Row>(tx: Executor, name: Name, values: readonly unknown[]): Promise<Row[]> {
    return tx.query<Row>(this.sql[name].text, values)
  }
}
