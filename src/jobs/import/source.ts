import { type Executor, loadStatements, quoteIdentifier, type Reader, type Statement } from '../../postgres/index.js'
import { UnknownSourceError } from '../errors.js'

/** A library from which jobs can be imported. */
export type ImportSource = 'pg-boss' | 'graphile-worker'

/** For each library: default schema, known versions of its tables, and the table that contains the version. */
const known = {
  'pg-boss': { schema: 'pgboss', versions: [31, 43], release: '12.19 to 12.35', table: 'version' },
  'graphile-worker': { schema: 'graphile_worker', versions: [18, 20], release: '0.16.6 to 0.18', table: 'migrations' },
} as const

export const importSources = Object.keys(known) as ImportSource[]

/**
 * Reason why a job stays in the other library. `running`: a worker is running it. `ended`: it has ended or failed
 * permanently. `locked`: another process has locked it, or it arrived during the import. `key`: another Holdfast job
 * has its unique key. `busy`: a job from the same serial queue is running in the other library. `linked`: it is waiting
 * for other jobs, or other jobs are waiting for it. `flags`: it has flags. `large`: its input, a name or a key is too
 * large for Holdfast. `internal`: it is one of the library's own internal jobs.
 */
export type SkipReason = 'running' | 'ended' | 'locked' | 'key' | 'busy' | 'linked' | 'flags' | 'large' | 'internal'

export interface ForeignJob {
  readonly id: string
  readonly kind: string
  /** Priority in the other library, where the range may be larger. */
  readonly priority: number
  /** JSON. */
  readonly input: string | null
  /** Earliest start. Null if the job may run now. */
  readonly runAt: string | null
  readonly failed: number
  readonly key: string | null
  readonly until: 'started' | 'ended'
  readonly lane: string | null
  /** Reason why the job stays in the other library. Null if it can be imported. */
  readonly reason: SkipReason | null
  /** Position in the import order. */
  readonly place: string
}

export interface RemainingCounts {
  readonly pending: number
  readonly running: number
  readonly ended: number
}

type StatementName = 'version' | 'lock_next' | 'remove' | 'count_remaining'

/** Reads and removes another library's jobs in this database. */
export class Source {
  readonly name: ImportSource
  readonly schema: string
  readonly #sql: Record<StatementName, Statement>

  constructor(name: ImportSource, schema: string = known[name].schema) {
    this.name = name
    this.schema = schema
    this.#sql = loadStatements<StatementName>(new URL(`./${name}.sql`, import.meta.url), schema, known[name].schema)
  }

  /** Throws an error if the tables do not exist, have an unknown version, or hide rows by row level security. */
  async check(executor: Executor): Promise<void> {
    const { versions, release, table } = known[this.name]
    const [found] = await executor.query<{ yes: boolean }>('select to_regclass($1) is not null as yes', [
      `${quoteIdentifier(this.schema)}.${table}`,
    ])
    if (!found!.yes) {
      throw new UnknownSourceError(
        `Expected the tables of ${this.name} in the schema "${this.schema}" of this database, got none`,
        'The tables must be in the same database as Holdfast. If they are in another schema, pass its name.',
      )
    }
    const [row] = await executor.query<{ version: number | null; is_hidden: boolean }>(this.#sql.version.text)
    const { version, is_hidden } = row!
    if (version === null || version < versions[0] || version > versions[1]) {
      throw new UnknownSourceError(
        `Expected tables of ${this.name} with a version from ${versions.join(' to ')} in the schema "${this.schema}", got ${version}`,
        `These are the versions of ${this.name} ${release}. Start one of these releases once to migrate the tables, or let its workers finish the jobs.`,
      )
    }
    if (is_hidden) {
      throw new UnknownSourceError(
        `Row level security hides the jobs of ${this.name} from this role`,
        'Import as the role that owns its tables.',
      )
    }
  }

  /** Locks and returns the next waiting jobs. */
  lockNext(tx: Executor, after: string | null, kind: string | null, max: number): Promise<ForeignJob[]> {
    return tx.query(this.#sql.lock_next.text, [after, kind, max])
  }

  /** Removes jobs. Returns their number. */
  async remove(tx: Executor, jobs: readonly ForeignJob[]): Promise<number> {
    return (await tx.query(this.#sql.remove.text, [JSON.stringify(jobs.map(({ id, kind }) => ({ id, kind })))])).length
  }

  async countRemaining(reader: Reader, kind: string | null): Promise<RemainingCounts> {
    return (await reader.read<RemainingCounts>(this.#sql.count_remaining.text, [kind]))[0]!
  }
}
