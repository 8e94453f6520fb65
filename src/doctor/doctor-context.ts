import { defaultTimes } from '../base/index.js'
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
  | 'catalog'
  | 'orphaned_locks'
  | 'unserved_jobs'
  | 'orphaned_schedules'
  | 'unplanned_schedules'
  | 'server_generation'
  | 'sequences'
  | 'fix_progress'

export interface ExamineOptions {
  readonly database: Database
  /** Connection that bypasses a pooler. Default: `database`'s connection. */
  readonly direct?: Connection | undefined
  readonly schema?: string | undefined
  /** Time without contact after which an instance counts as dead. */
  readonly expiryMs?: number | undefined
  /**
   * Duration after which an open transaction, a paused queue, an idle session or a ready job without a worker is reported. The default is
   * 10 minutes, and 30 seconds for a ready job.
   */
  readonly toleranceMs?: number | undefined
}

export interface Server {
  readonly role: string
  readonly database: string
  readonly version_text: string
  readonly address: string | null
  readonly port: number | null
}

/** Result of the session lock test. */
export type ConnectionPath = 'direct' | 'session pooler' | 'transaction pooler' | 'none'

const statementTimeoutMs = 5_000

/** Options, facts and statements that the checks share. */
export class DoctorContext {
  readonly database: Database
  readonly direct: Connection | undefined
  readonly schema: string
  readonly expiryMs: number
  readonly toleranceMs: number
  /** Duration after which a ready job without a worker is reported. */
  readonly unservedToleranceMs: number
  server!: Server
  path: ConnectionPath = 'none'
  /** Schema version. 0 if the schema does not exist. */
  version = 0
  /** Number of steps that `migrate` would run: one per migration, and one for all functions. */
  pending = 0
  /** Whether this version of Holdfast applied the schema's functions. */
  hasOurFunctions = false
  readonly #sql: Record<StatementName, Statement>

  constructor({
    database,
    direct,
    schema = 'holdfast',
    expiryMs = defaultTimes.expiryMs,
    toleranceMs,
  }: ExamineOptions) {
    this.database = database
    this.direct = direct
    this.schema = schema
    this.expiryMs = expiryMs
    this.toleranceMs = toleranceMs ?? defaultTimes.doctorPatienceMs
    this.unservedToleranceMs = toleranceMs ?? defaultTimes.doctorUnservedPatienceMs
    this.#sql = loadStatements<StatementName>(new URL('./doctor.sql', import.meta.url), schema)
  }

  /** Qualified name of an object in the schema, quoted if necessary. */
  qualifiedName(name: string): string {
    return `${this.quotedSchema}.${quoteIfNecessary(name)}`
  }

  /** Name of the schema, quoted if necessary. */
  get quotedSchema(): string {
    return quoteIfNecessary(this.schema)
  }

  get isInstalled(): boolean {
    return this.version > 0
  }

  /** Runs a query with a statement timeout, so that a locked table cannot block a check. */
  get executor(): Executor {
    return {
      query: <Row>(text: string, values?: readonly unknown[]) =>
        this.database.transaction(async (tx) => {
          await tx.query(localSettings(statementTimeoutMs))
          return tx.query<Row>(text, values)
        }),
    }
  }

  get observer(): Observer {
    return new Observer({ read: this.executor.query }, this.schema)
  }

  async instances(): Promise<readonly FleetInstance[]> {
    return this.isInstalled ? (await this.observer.fleet.list()).rows : []
  }

  async aliveInstances(): Promise<FleetInstance[]> {
    return (await this.instances()).filter(({ alive }) => alive)
  }

  query<Row>(statement: StatementName, values: readonly unknown[] = []): Promise<Row[]> {
    return this.executor.query<Row>(this.#sql[statement].text, values)
  }

  /** Runs a query with the role's, the database's and the server's default settings. */
  queryAsOthers<Row>(statement: StatementName, values: readonly unknown[] = []): Promise<Row[]> {
    return this.database.read<Row>(this.#sql[statement].text, values)
  }

  /** Schemas on a pool session's search path. */
  async searchedSchemas(): Promise<string[]> {
    const [row] = await this.database.query<{ schemas: string[] }>(this.#sql.search_path.text)
    return row!.schemas
  }
}

function quoteIfNecessary(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : quoteIdentifier(name)
}

/** A check that the doctor runs. */
export interface Check {
  /** Subject of the check, as it appears in messages. Example: "the connection to the server". */
  readonly name: string
  /** Whether the check examines the running fleet. Default: false, the check examines the database and its configuration. */
  readonly isOfFleet?: boolean
  /** Whether the check needs Holdfast's tables. Default: false. */
  readonly needsSchema?: boolean
  run(context: DoctorContext): Promise<Finding | undefined | readonly (Finding | undefined)[]>
}
