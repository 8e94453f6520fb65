import { type FleetInstance, Observer } from '../observe/index.js'
import {
  type Connection,
  type Database,
  type Executor,
  loadStatements,
  localSettings,
  quoteIdentifier,
  type Statement,
} from '../postgres/index.js'
import type { Finding } from './finding.js'

export type StatementName =
  | 'server'
  | 'settings'
  | 'lock_table_use'
  | 'connections'
  | 'rights'
  | 'ownership'
  | 'other_roles'
  | 'search_path'
  | 'untrusted_schemas'
  | 'hidden_sessions'
  | 'transactions'
  | 'prepared'
  | 'slots'
  | 'dead_rows'
  | 'notification_queue'
  | 'notify'
  | 'standbys'
  | 'clock'
  | 'instance_clocks'
  | 'catalog'
  | 'orphaned_locks'
  | 'unserved_jobs'
  | 'orphaned_schedules'
  | 'server_generation'
  | 'sequences'
  | 'fix_progress'

export interface ExamineOptions {
  readonly database: Database
  /** How to connect past a pooler; where it is not given, that is how the database itself is reached. */
  readonly direct?: Connection | undefined
  readonly schema?: string | undefined
  /** The expiry that the instances are opened with. */
  readonly expiryMs?: number | undefined
  /** From when on something lasts too long: a transaction, a pause, a job that nobody runs. */
  readonly toleranceMs?: number | undefined
}

export interface Server {
  readonly role: string
  readonly database: string
  readonly version_text: string
  readonly address: string | null
  readonly port: number | null
}

/** How a connection of our own has fared, on which session locks were tried. */
export type ConnectionPath = 'direct' | 'session pooler' | 'transaction pooler' | 'none'

const statementTimeoutMs = 5_000

/** What the checks look at. */
export class DoctorContext {
  readonly database: Database
  readonly direct: Connection | undefined
  readonly schema: string
  readonly expiryMs: number
  readonly toleranceMs: number
  server!: Server
  path: ConnectionPath = 'none'
  /** The version of the schema; 0 where there is none. */
  version = 0
  /** Number of steps that `migrate` would take: migrations, and one for functions. */
  pending = 0
  /** Whether the functions of the schema are meant to be those of this version of Holdfast. */
  hasOurFunctions = false
  readonly #sql: Record<StatementName, Statement>

  constructor({ database, direct, schema = 'holdfast', expiryMs = 10_000, toleranceMs = 600_000 }: ExamineOptions) {
    this.database = database
    this.direct = direct
    this.schema = schema
    this.expiryMs = expiryMs
    this.toleranceMs = toleranceMs
    this.#sql = loadStatements<StatementName>(new URL('./doctor.sql', import.meta.url), schema)
  }

  /** A thing in the schema, as SQL wants it. */
  qualifiedName(thing: string): string {
    return `${this.quotedSchema}.${/^[a-z_][a-z0-9_]*$/.test(thing) ? thing : quoteIdentifier(thing)}`
  }

  /** The schema's name, quoted where it must be. */
  get quotedSchema(): string {
    return /^[a-z_][a-z0-9_]*$/.test(this.schema) ? this.schema : quoteIdentifier(this.schema)
  }

  get isInstalled(): boolean {
    return this.version > 0
  }

  /**
   * Asks, and gives up after a while: a table that somebody keeps locked is a case for the doctor, and no reason to hang.
   */
  get executor(): Executor {
    return {
      query: <Row>(text: string, values?: readonly unknown[]) =>
        this.database.transaction(async (tx) => {
          await tx.query(`${localSettings}; set local statement_timeout = ${statementTimeoutMs}`)
          return tx.query<Row>(text, values)
        }),
    }
  }

  get observer(): Observer {
    return new Observer({ read: this.executor.query }, this.schema)
  }

  /** Those that live. */
  async aliveInstances(): Promise<FleetInstance[]> {
    if (!this.isInstalled) return []
    return (await this.observer.fleet.list()).rows.filter(({ alive }) => alive)
  }

  query<Row>(statement: StatementName, values: readonly unknown[] = []): Promise<Row[]> {
    return this.executor.query<Row>(this.#sql[statement].text, values)
  }

  /** Asks on a session as others have it: with the timeouts of the role, the database and the server. */
  queryAsOthers<Row>(statement: StatementName, values: readonly unknown[] = []): Promise<Row[]> {
    return this.database.read<Row>(this.#sql[statement].text, values)
  }

  /** The schemas that a session of the pool searches. */
  async searchedSchemas(): Promise<string[]> {
    const [row] = await this.database.query<{ schemas: string[] }>(this.#sql.search_path.text)
    return row!.schemas
  }
}

/** One thing that the doctor looks at. */
export interface Check {
  /** What is looked at, for people: "the path to the server". */
  readonly name: string
  /** Whether it needs the tables of Holdfast. */
  readonly needsSchema: boolean
  run(context: DoctorContext): Promise<Finding[]>
}
