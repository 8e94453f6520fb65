import {
  type Database,
  type Executor,
  loadStatements,
  retryOnConflict,
  type Statement,
  sqlstate,
  sqlstateOf,
} from '../postgres/index.js'

export interface JobStoreOptions {
  readonly database: Database
  readonly schema: string
  readonly expiryMs: number
}

type StatementName =
  | 'enqueue'
  | 'reserve'
  | 'record_queue'
  | 'register_worker'
  | 'set_sleeping'
  | 'pass_on'
  | 'wake'
  | 'look'
  | 'unregister_worker'
  | 'stop_claiming'
  | 'claim'
  | 'done'
  | 'end'
  | 'mark_started'
  | 'check_running'
  | 'save_notes'
  | 'give_back'
  | 'run_follow_ups'
  | 'draw_ids'
  | 'last_id'
  | 'states'
  | 'workflow'
  | 'waits_for'
  | 'unserved'
  | 'maintain'
  | 'crashed'
  | 'expire'
  | 'archive'
  | 'roll_partitions'
  | 'find'
  | 'cancel'
  | 'update'
  | 'watched'
  | 'retry'
  | 'retry_many'
  | 'cancel_many'
  | 'discard_many'
  | 'redrive'
  | 'pause'
  | 'known_queues'
  | 'steps'
  | 'record_step'
  | 'wait'
  | 'suspend'
  | 'send'

export class JobStore {
  readonly sql: Record<StatementName, Statement>
  readonly #options: JobStoreOptions
  /**
   * Whether the database's default isolation level is higher than READ COMMITTED. Determined by the first statement
   * that requires READ COMMITTED.
   */
  #isHigherIsolation = false

  constructor(options: JobStoreOptions) {
    this.#options = options
    this.sql = loadStatements<StatementName>(new URL('./jobs.sql', import.meta.url), options.schema)
  }

  get database(): Database {
    return this.#options.database
  }

  get expiryMs(): number {
    return this.#options.expiryMs
  }

  run<Row>(name: StatementName, values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    // Retries after a check violation, because a job may end while the day's partition is being created.
    return retryOnConflict(async () => {
      if (this.#isHigherIsolation) return this.#runAtReadCommitted<Row>(name, values)
      try {
        return await database.query<Row>(this.sql[name].text, values, expiryMs)
      } catch (error) {
        if (sqlstateOf(error) !== sqlstate.notReadCommitted) throw error
        this.#isHigherIsolation = true
        return this.#runAtReadCommitted<Row>(name, values)
      }
    }, sqlstate.checkViolation)
  }

  /** At a higher isolation level, a statement that has waited for a lock would not see what the lock protects. */
  #runAtReadCommitted<Row>(name: StatementName, values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    return database.write<Row>(this.sql[name].text, values, expiryMs)
  }

  /** Runs a statement that reads many rows. See `Database.read`. */
  read<Row>(name: 'states' | 'workflow' | 'waits_for' | 'known_queues', values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    return database.read<Row>(this.sql[name].text, values, expiryMs)
  }

  /** Runs a statement that must read many rows in order to change a few. See `Database.write`. */
  write<Row>(name: 'retry' | 'retry_many' | 'discard_many' | 'redrive', values: readonly unknown[]): Promise<Row[]> {
    const { database, expiryMs } = this.#options
    return retryOnConflict(() => database.write<Row>(this.sql[name].text, values, expiryMs), sqlstate.checkViolation)
  }

  runIn<Row>(tx: Executor, name: StatementName, values: readonly unknown[]): Promise<Row[]> {
    return tx.query<Row>(this.sql[name].text, values)
  }
}
