import { type TransactionStatements, transactionStatements } from '../once/index.js'
import { type Database, despiteCollisions, type Executor, loadStatements, type Statement } from '../postgres/index.js'

export interface LedgerOptions {
  readonly database: Database
  readonly schema: string
  readonly expiryMs: number
}

type Name =
  | 'now'
  | 'declare'
  | 'withdraw'
  | 'look'
  | 'take'
  | 'end'
  | 'done'
  | 'note'
  | 'change'
  | 'pause'
  | 'run'
  | 'sweep'
  | 'find'
  | 'runs'

/** How a schedule stands; see schedule_states. */
export type Standing = readonly [
  key: string,
  rule: string,
  nextMs: number | null,
  dueMs: number | null,
  ranBy: string | null,
  late: number,
  mannedMs: number | null,
]

/** A run that has begun; see schedule_begin. */
export type Begun = readonly [
  key: string,
  tickMs: number,
  extra: boolean,
  fence: number,
  attempt: number,
  lateMs: number,
  lastSuccessMs: number | null,
]

/** What the functions of the schema answer, as JSON. */
interface Answers {
  declare: {
    now: number
    declared: [key: string, schedule: string, adopts: boolean][]
    states: Standing[] | null
  }
  look: {
    now: number
    /** The last fence that was drawn. */
    fence: number
    runs: boolean
    begin: string[] | null
    stopping: [fence: number, why: string][] | null
    soon: { states: Standing[] | null; members: number; adopt: string[] | null } | null
  }
  take: { state: 'unsettled' } | { state: 'taken'; now: number; begun: Begun[]; states: Standing[] | null }
  end: { recorded: number[]; waits: string[] | null }
}

/** How the room's statements are run. */
export class Ledger {
  readonly transactionStatements: TransactionStatements
  readonly #sql: Record<Name, Statement>
  readonly #options: LedgerOptions

  constructor(options: LedgerOptions) {
    this.#options = options
    this.transactionStatements = transactionStatements(options.schema)
    this.#sql = loadStatements<Name>(new URL('./schedules.sql', import.meta.url), options.schema)
  }

  get database(): Database {
    return this.#options.database
  }

  get expiryMs(): number {
    return this.#options.expiryMs
  }

  run<Row>(name: Name, values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    return despiteCollisions(() => database.query<Row>(this.#sql[name].text, values, expiryMs))
  }

  /** Of those that look at many rows: see `Database.read`. */
  read<Row>(name: 'find' | 'runs', values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    return despiteCollisions(() => database.read<Row>(this.#sql[name].text, values, expiryMs))
  }

  async ask<Asked extends keyof Answers>(name: Asked, values: readonly unknown[]): Promise<Answers[Asked]> {
    const [row] = await this.run<{ answer: string }>(name, values)
    return JSON.parse(row!.answer)
  }

  runIn<Row>(tx: Executor, name: Name, values: readonly unknown[]): Promise<Row[]> {
    return tx.query<Row>(this.#sql[name].text, values)
  }
}
