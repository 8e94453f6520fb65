import { type Database, type Executor, loadStatements, retryOnConflict, type Statement } from '../postgres/index.js'
import { UnknownScheduleError } from './errors.js'
import type { ScheduleRow } from './status.js'

export interface ScheduleStoreOptions {
  readonly database: Database
  readonly schema: string
  readonly expiryMs: number
}

type StatementName =
  | 'now'
  | 'declare'
  | 'withdraw'
  | 'poll'
  | 'look'
  | 'claim'
  | 'end'
  | 'done'
  | 'save_logs'
  | 'change'
  | 'pause'
  | 'run'
  | 'sweep'
  | 'store'
  | 'drop'
  | 'tick_stored'
  | 'look_stored'
  | 'sweep_stored'
  | 'find'
  | 'names'
  | 'runs'

/** State of a schedule, as schedule_states returns it. */
export type ScheduleState = readonly [
  key: string,
  rule: string,
  nextMs: number | null,
  dueMs: number | null,
  lastInstance: string | null,
  catchUp: number,
  firstMemberMs: number | null,
  /** Number of members before this instance, in the order of their ids. */
  place: number,
  members: number,
]

/** Started run, as schedule_start_runs returns it. */
export type StartedRun = readonly [
  key: string,
  tickMs: number,
  extra: boolean,
  fence: number,
  attempt: number,
  lateMs: number,
  lastSuccessMs: number | null,
]

/** Result of schedule_look. */
export interface LookResult {
  readonly now: number
  /** Last fencing token that the server assigned. */
  readonly fence: number
  /** The member's schedules that have an active run. */
  readonly runs: readonly string[] | null
  readonly begin: readonly string[] | null
  readonly stopping: readonly (readonly [fence: number, why: string])[] | null
  readonly soon: {
    readonly states: readonly ScheduleState[] | null
    readonly members: number
    readonly adopt: readonly string[] | null
  } | null
  /** Whether a poll would change something. */
  readonly repairs: boolean
}

/** Stored schedule that needs a plan, as schedule_tick_stored returns it. */
export type StoredState = readonly [
  key: string,
  /** Rule in force. */
  rule: string,
  nextMs: number | null,
  catchUp: number,
  /** Time from which the new rule applies, as the database wrote it. Null if the rule has not changed. */
  changedAt: string | null,
  changedMs: number | null,
  newRule: string,
]

/** JSON responses of the SQL functions. */
interface Responses {
  declare: {
    now: number
    declared: [key: string, schedule: string, adopts: boolean][]
    states: ScheduleState[] | null
  }
  poll: LookResult
  claim:
    | { state: 'in-grace' }
    | { state: 'claimed'; now: number; started: StartedRun[]; states: ScheduleState[] | null }
  end: { recorded: number[]; waits: string[] | null }
  tick_stored:
    | { state: 'standby'; wait_ms: number }
    | { state: 'ticked'; now: number; due: StoredState[]; wait_ms: number | null }
}

/** Runs the statements in schedules.sql. */
export class ScheduleStore {
  readonly database: Database
  readonly expiryMs: number
  readonly #sql: Record<StatementName, Statement>

  constructor({ database, schema, expiryMs }: ScheduleStoreOptions) {
    this.database = database
    this.expiryMs = expiryMs
    this.#sql = loadStatements<StatementName>(new URL('./schedules.sql', import.meta.url), schema)
  }

  run<Row>(name: StatementName, values: readonly unknown[]): Promise<Row[]> {
    return retryOnConflict(() => this.database.query<Row>(this.#sql[name].text, values, this.expiryMs))
  }

  /** Runs a statement that reads many rows. See `Database.read`. */
  read<Row>(name: 'find' | 'runs', values: readonly unknown[]): Promise<Row[]> {
    return retryOnConflict(() => this.database.read<Row>(this.#sql[name].text, values, this.expiryMs))
  }

  /** Statement of the look. See `Presence.lookOnHeartbeat`. */
  get look(): Statement {
    return this.#sql.look
  }

  /** Statement of the look at stored schedules. */
  get lookStored(): Statement {
    return this.#sql.look_stored
  }

  /** Returns the schedule to which the key of a name refers, as a list with at most one row. */
  find(key: string, namespace: string): Promise<ScheduleRow[]> {
    return this.read<ScheduleRow>('find', [key, namespace, null, null, 1])
  }

  /** Returns the error for the name of a schedule that does not exist. */
  async unknown(name: string, namespace: string): Promise<UnknownScheduleError> {
    const rows = await this.run<{ name: string }>('names', [namespace])
    return new UnknownScheduleError(
      name,
      namespace,
      rows.map((row) => row.name),
    )
  }

  async call<Name extends keyof Responses>(name: Name, values: readonly unknown[]): Promise<Responses[Name]> {
    const [row] = await this.run<{ answer: string }>(name, values)
    return JSON.parse(row!.answer)
  }

  runIn<Row>(tx: Executor, name: StatementName, values: readonly unknown[]): Promise<Row[]> {
    return tx.query<Row>(this.#sql[name].text, values)
  }
}
