import { type Executor, loadStatements, quoteIdentifier, type Reader, type Statement } from '../../postgres/index.js'
import { UnknownSourceError } from '../errors.js'

/** A library from which jobs can be imported. */
export type ImportSource = 'pg-boss' | 'graphile-worker'

/** Where each keeps its jobs unless it is told otherwise, which versions of its tables are known, and which table tells the version. */
const known = {
  'pg-boss': { schema: 'pgboss', versions: [31, 43], release: '12.19 to 12.35', table: 'version' },
  'graphile-worker': { schema: 'graphile_worker', versions: [18, 20], release: '0.16.6 to 0.18', table: 'migrations' },
} as const

export const importSources = Object.keys(known) as ImportSource[]

/**
 * Reason why a job stays in the other library. `running`: a worker has it. `ended`: it has ended, or failed for good. `locked`: another
 * process has locked it, or it arrived during the import. `key`: another job has its unique key here. `busy`: a job of the same line
 * runs there. `linked`: it waits for others, or others wait for it. `flags`: it has flags. `large`: its input, a name or a key is too large
 * here. `internal`: it is a job of the library itself.
 */
export type SkipReason = 'running' | 'ended' | 'locked' | 'key' | 'busy' | 'linked' | 'flags' | 'large' | 'internal'

/** A job that waits elsewhere. */
export interface ForeignJob {
  readonly id: string
  readonly kind: string
  /** As many as there are there. */
  readonly priority: number
  /** JSON. */
  readonly input: string | null
  /** Null when it may run now. */
  readonly runAt: string | null
  readonly failed: number
  readonly key: string | null
  readonly until: 'started' | 'ended'
  readonly lane: string | null
  /** What keeps it there. */
  readonly reason: SkipReason | null
  /** Where it stands among the others. */
  readonly place: string
}

/** How many there are, by what they do. */
export interface RemainingCounts {
  readonly pending: number
  readonly running: number
  readonly ended: number
}

type StatementName = 'version' | 'lock_next' | 'remove' | 'count_remaining'

/** The jobs of another library in this database. */
export class Source {
  readonly name: ImportSource
  readonly schema: string
  readonly #sql: Record<StatementName, Statement>

  constructor(name: ImportSource, schema: string = known[name].schema) {
    this.name = name
    this.schema = schema
    this.#sql = loadStatements<StatementName>(new URL(`./${name}.sql`, import.meta.url), schema, known[name].schema)
  }

  /** Throws where its tables are not there, are of a version that is not known, or hide their rows. */
  async check(executor: Executor): Promise<void> {
    const { versions, release, table } = known[this.name]
    const [found] = await executor.query<{ yes: boolean }>('select to_regclass($1) is not null as yes', [
      `${quoteIdentifier(this.schema)}.${table}`,
    ])
    if (!found!.yes) {
      throw new UnknownSourceError(
        `There is no ${this.name} in the schema "${this.schema}" of this database`,
        'Its tables have to be in the database of Holdfast. Name their schema, if it is another one.',
      )
    }
    const [row] = await executor.query<{ version: number | null; is_hidden: boolean }>(this.#sql.version.text)
    const { version, is_hidden } = row!
    if (version === null || version < versions[0] || version > versions[1]) {
      throw new UnknownSourceError(
        `The tables of ${this.name} in the schema "${this.schema}" have the version ${version}, and ${versions.join(' to ')} are known`,
        `Those are of ${this.name} ${release}. Start one of these releases once, so that it migrates its tables, or let its workers come to an end of their jobs.`,
      )
    }
    if (is_hidden) {
      throw new UnknownSourceError(
        `Row level security hides the jobs of ${this.name} from this role`,
        'Import as the role that owns its tables.',
      )
    }
  }

  /** The next ones that wait, locked. */
  lockNext(tx: Executor, after: string | null, kind: string | null, max: number): Promise<ForeignJob[]> {
    return tx.query(this.#sql.lock_next.text, [after, kind, max])
  }

  /** Answers how many were removed. */
  async remove(tx: Executor, jobs: readonly ForeignJob[]): Promise<number> {
    return (await tx.query(this.#sql.remove.text, [JSON.stringify(jobs.map(({ id, kind }) => ({ id, kind })))])).length
  }

  async countRemaining(reader: Reader, kind: string | null): Promise<RemainingCounts> {
    return (await reader.read<RemainingCounts>(this.#sql.count_remaining.text, [kind]))[0]!
  }
}
