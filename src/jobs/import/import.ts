import { checkName, describe, flag, readOptions, UsageError } from '../../base/index.js'
import { checkSchemaName, type Database, type Executor, withoutJit } from '../../postgres/index.js'
import type { Intake } from '../intake.js'
import { type ForeignJob, type ImportSource, importSources, type SkipReason, Source } from './source.js'

export interface ImportOptions {
  /** The other library's database schema. The default is `pgboss` or `graphile_worker`. */
  schema?: string | undefined
  /** Name of the pg-boss queue or graphile-worker task to import. By default, all jobs are imported. */
  kind?: string | undefined
  /** Queue for the imported jobs. The default is `default`, as in job definitions. */
  into?: string | undefined
  /** Whether to roll everything back and only return the result that a real import would have. */
  dryRun?: boolean | undefined
}

/** Jobs that were moved from another library, and jobs that stay in that library. */
export interface ImportResult {
  /** Number of moved jobs, by kind. */
  readonly imported: readonly {
    /** Name of the job definition. */
    readonly kind: string
    /**
     * Number of jobs.
     *
     * @minimum 1
     */
    readonly jobs: number
  }[]
  /** Number of jobs that stay in the other library, by reason. */
  readonly skipped: readonly {
    /** Reason why the jobs stay in the other library. */
    readonly reason: SkipReason
    /**
     * Number of jobs.
     *
     * @minimum 1
     */
    readonly jobs: number
  }[]
}

const rules = {
  schema: { expected: 'the name of a schema', read: (given: unknown) => checkSchemaName(given as string) },
  kind: { expected: 'a name', read: (given: unknown) => checkName(given, 'kind') },
  into: { expected: 'a name', read: (given: unknown) => checkName(given, 'into') },
  dryRun: flag,
}

/**
 * Maximum number of jobs per transaction. Transactions must be short, because the other library's workers skip locked
 * jobs.
 */
const maxPerTransaction = 1_000

/**
 * Moves waiting jobs from another library's tables. A single transaction locks a job in the other library, enqueues the
 * job in Holdfast, and removes the job from the other library. Therefore, each job is in exactly one place even after a
 * crash, and the other library's running workers skip the locked job.
 */
export async function importJobs(
  database: Database,
  intake: Intake,
  from: ImportSource,
  options: ImportOptions | undefined,
): Promise<ImportResult> {
  const { schema, kind = null, into = 'default', dryRun = false } = readOptions('jobs.importFrom', options, rules)
  const source = new Source(checkSource(from), schema)
  await source.check(database)
  const imported = new Tally<string>()
  const skipped = new Tally<SkipReason>()
  for (let after: string | null = null; ; ) {
    const batch = await undoneIf(dryRun, database, async (tx) => {
      await tx.query(withoutJit)
      const found = await source.lockNext(tx, after, kind, maxPerTransaction)
      const wanted = found.filter(({ reason }) => reason === null)
      const enqueued = await intake.enqueueImported(wanted, into, from, tx)
      await source.remove(tx, enqueued)
      return { found, wanted, enqueued }
    })
    for (const { kind } of batch.enqueued) imported.add(kind)
    for (const { reason } of batch.found) if (reason !== null) skipped.add(reason)
    skipped.add('key', batch.wanted.length - batch.enqueued.length)
    const last: ForeignJob | undefined = batch.found.at(-1)
    if (last === undefined) break
    after = last.place
  }
  const { pending, running, ended } = await source.countRemaining(database, kind)
  skipped.add('locked', Math.max(0, pending - skipped.total - (dryRun ? imported.total : 0)))
  skipped.add('running', running)
  skipped.add('ended', ended)
  return {
    imported: imported.list.map(([kind, jobs]) => ({ kind, jobs })),
    skipped: skipped.list.map(([reason, jobs]) => ({ reason, jobs })),
  }
}

function checkSource(given: unknown): ImportSource {
  const name = importSources.find((name) => name === given)
  if (name) return name
  const words = importSources.map((name) => `"${name}"`).join(' or ')
  throw new UsageError(`Expected the source library to be ${words}, got ${describe(given)}`)
}

/** Runs `work` in a transaction. A dry run rolls the transaction back. */
async function undoneIf<T>(isDry: boolean, database: Database, work: (tx: Executor) => Promise<T>): Promise<T> {
  if (!isDry) return database.transaction(work)
  let answer: { readonly value: T } | undefined
  await database
    .transaction(async (tx) => {
      answer = { value: await work(tx) }
      throw new Undone()
    })
    .catch((error) => {
      if (!(error instanceof Undone)) throw error
    })
  return answer!.value
}

class Undone extends Error {}

/** Counts items by key. Keeps the keys in the order in which they were first used. */
class Tally<Key> {
  readonly #counts = new Map<Key, number>()

  add(key: Key, count = 1): void {
    if (count > 0) this.#counts.set(key, (this.#counts.get(key) ?? 0) + count)
  }

  get list(): readonly (readonly [Key, number])[] {
    return [...this.#counts]
  }

  get total(): number {
    return [...this.#counts.values()].reduce((all, count) => all + count, 0)
  }
}
