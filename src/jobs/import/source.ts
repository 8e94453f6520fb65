import type { LogLine } from '../../base/index.js'
import { type Executor, loadStatements, quoteIdentifier, type Reader, type Statement } from '../../postgres/index.js'
import { highestPriority, lowestPriority } from '../enqueue-options.js'
import { UnknownSourceError } from '../errors.js'

/** Library from which jobs can be imported. */
export type ImportSource = 'pg-boss' | 'graphile-worker'

/**
 * Each library's default schema, the known versions of its tables, and the table that contains the version.
 */
const known = {
  'pg-boss': { schema: 'pgboss', versions: [31, 43], release: '12.19 to 12.35', table: 'version' },
  'graphile-worker': { schema: 'graphile_worker', versions: [18, 20], release: '0.16.6 to 0.18', table: 'migrations' },
} as const

export const importSources = Object.keys(known) as ImportSource[]

/**
 * Reason why a job stays in the other library. `running`: a worker is running the job. `ended`: the job has ended or
 * failed permanently. `locked`: another process has locked the job, or the job arrived during the import. `key`:
 * another Holdfast job has the same unique key. `busy`: a job from the same serial queue is running in the other
 * library. `linked`: the job is waiting for other jobs, or other jobs are waiting for this job. `flags`: the job has
 * flags. `large`: the job's input, a name or a key is too large for Holdfast. `internal`: the job is one of the
 * library's own internal jobs.
 */
export type SkipReason = 'running' | 'ended' | 'locked' | 'key' | 'busy' | 'linked' | 'flags' | 'large' | 'internal'

export interface ForeignJob {
  readonly id: string
  readonly kind: string
  /** Priority in the other library, which may be outside Holdfast's range. */
  readonly priority: number
  /** JSON. */
  readonly input: string | null
  /** Earliest start of the job. Null if the job may run now. */
  readonly runAt: string | null
  readonly failed: number
  readonly key: string | null
  readonly until: 'started' | 'ended'
  readonly lane: string | null
  /** Reason why the job stays in the other library. Null if it can be imported. */
  readonly reason: SkipReason | null
  /** The job's position in the import order. */
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

  /** Throws an error if the tables do not exist, have an unknown version, or hide rows through row-level security. */
  async check(executor: Executor): Promise<void> {
    const { versions, release, table } = known[this.name]
    const [found] = await executor.query<{ yes: boolean }>('select to_regclass($1) is not null as yes', [
      `${quoteIdentifier(this.schema)}.${table}`,
    ])
    if (!found!.yes) {
      throw new UnknownSourceError(
        `Found no tables of ${this.name} in the schema "${this.schema}" of this database`,
        "The tables must be in the same database as Holdfast. If the tables are in another schema, pass that schema's name.",
      )
    }
    const [row] = await executor.query<{ version: number | null; is_hidden: boolean }>(this.#sql.version.text)
    const { version, is_hidden } = row!
    if (version === null || version < versions[0] || version > versions[1]) {
      throw new UnknownSourceError(
        `Expected the tables of ${this.name} in the schema "${this.schema}" to have a version from ${versions.join(' to ')}, got ${version}`,
        `The supported releases of ${this.name} are ${release}. Start one of these releases once to migrate the tables, or let the existing workers finish the jobs.`,
      )
    }
    if (is_hidden) {
      throw new UnknownSourceError(
        `Row-level security hides the jobs of ${this.name} from this database role`,
        'Run the import as the role that owns the tables.',
      )
    }
  }

  /** Locks and returns the next waiting jobs. */
  lockNext(tx: Executor, after: string | null, kind: string | null, max: number): Promise<ForeignJob[]> {
    return tx.query(this.#sql.lock_next.text, [after, kind, max])
  }

  /** Removes jobs from the other library, and returns the number of removed jobs. */
  async remove(tx: Executor, jobs: readonly ForeignJob[]): Promise<number> {
    return (await tx.query(this.#sql.remove.text, [JSON.stringify(jobs.map(({ id, kind }) => ({ id, kind })))])).length
  }

  async countRemaining(reader: Reader, kind: string | null): Promise<RemainingCounts> {
    return (await reader.read<RemainingCounts>(this.#sql.count_remaining.text, [kind]))[0]!
  }
}

/** Returns the head of an imported job. See `Intake`. `queue` is the key of the queue in Holdfast. */
export function foreignHead(job: ForeignJob, queue: string, from: string): string {
  const { id, kind, priority, runAt, key, until, lane, failed } = job
  const rank = Math.max(lowestPriority, Math.min(highestPriority, priority))
  let head = `{"queue":${queue},"kind":${JSON.stringify(kind)},"priority":${rank},"max_crashes":3`
  const imported: LogLine = {
    at: new Date().toISOString(),
    attempt: 0,
    number: 1,
    text: `Imported from ${from}: ${id}`,
  }
  head += `,"failed":${failed},"log":${JSON.stringify([imported])}`
  if (runAt !== null) head += `,"run_at":${JSON.stringify(runAt)}`
  if (lane !== null) head += `,"links":${JSON.stringify({ lane: { name: lane, max: 1 } })}`
  if (key !== null) head += `,"unique":${JSON.stringify({ key, until, existing: 'keep' })}`
  return head
}
