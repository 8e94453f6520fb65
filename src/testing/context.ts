import { describe, UsageError } from '../base/index.js'
import { Holdfast } from '../index.js'
import { arrayLiteral, type Database, loadStatements, type Statement } from '../postgres/index.js'

type Name =
  | 'queues'
  | 'enqueued'
  | 'open_jobs'
  | 'attempted'
  | 'unfinished'
  | 'maintain'
  | 'pass_time'
  | 'expire'
  | 'are_due'
  | 'stop_claims'
  | 'remove'
  | 'release_links'
  | 'resume'

/** Gives the test kit access to an instance's database. */
export class TestingContext {
  readonly database: Database
  readonly schema: string
  readonly sql: Record<Name, Statement>
  readonly #holdfast: Holdfast

  constructor(holdfast: Holdfast) {
    if (!(holdfast instanceof Holdfast)) {
      throw new UsageError(`Expected an instance that Holdfast.open returned, got ${describe(holdfast)}`)
    }
    const { database, schema } = holdfast.context
    this.database = database
    this.schema = schema
    this.sql = loadStatements<Name>(new URL('./testing.sql', import.meta.url), schema)
    this.#holdfast = holdfast
  }

  run<Row>(name: Name, values: readonly unknown[] = []): Promise<Row[]> {
    return this.database.write<Row>(this.sql[name].text, values)
  }

  /** Returns all queue keys in the namespace, as an array literal. */
  async queues(): Promise<string> {
    const { namespace, jobs } = this.#holdfast
    const rows = await this.run<{ key: string }>('queues', [namespace, arrayLiteral(jobs.usedQueues)])
    return arrayLiteral(rows.map(({ key }) => key))
  }

  /**
   * Ends jobs whose deadline has passed. Returns true if maintenance ran and ended no job. At a higher isolation level
   * than READ COMMITTED, the statement would read old job states.
   */
  async expire(): Promise<boolean> {
    return this.database.transaction(async (tx) => {
      await tx.query('set transaction isolation level read committed')
      const [row] = await tx.query<{ ran: boolean; expired: number }>(this.sql.expire.text)
      return row!.ran && row!.expired === 0
    })
  }

  /** Makes due jobs ready. Returns true if maintenance ran and moved no job. */
  async runMaintenance(): Promise<boolean> {
    const [row] = await this.run<{ moved: number | null }>('maintain')
    return row!.moved === 0
  }
}
