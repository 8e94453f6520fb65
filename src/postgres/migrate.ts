import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { Database, Executor } from './database.js'
import {
  type BlockingSession,
  DatabaseError,
  MigrationBlockedError,
  MigrationFailedError,
  SchemaVersionError,
} from './errors.js'
import { lockClass } from './lock-classes.js'
import { localSettings } from './node-postgres.js'
import { baseline, functionsRevision, functionsScript, type RoomFunctions, roomFunctions } from './schema-rooms.js'
import { sqlstate, sqlstateOf } from './sqlstate.js'
import { inSchema, loadStatements, quoteIdentifier } from './statements.js'

/**
 * Brings the schema up to date in two kinds of steps, each in one transaction:
 *
 * - **migrations** change tables, forward only. The first is the baseline, made of the schema.sql of each room. Later ones are the
 *   numbered files of migrations/. A migration names the oldest version of the schema whose code can still work with it.
 * - **functions** follow all migrations. They are replaced whenever the text of a room differs from the text that was applied last.
 *   An older instance, whose revision is lower, leaves newer functions alone.
 *
 * Instances that start at the same time take turns behind a transaction lock, so this is safe through any pooler. The rules for
 * those who change the schema are in docs/operating/upgrades.md.
 */
export interface Migration {
  readonly version: number
  readonly name: string
  /** Code that was made for this version of the schema, or a later one, can go on working after the migration. */
  readonly worksFrom: number
  readonly sql: string
}

/** Numbered changes of tables. Absent from the package while there are none. */
const directory = new URL('./migrations/', import.meta.url)

export function allMigrations(schema: string): Migration[] {
  const files = existsSync(directory) ? readdirSync(directory).filter((file) => file.endsWith('.sql')) : []
  return [
    { version: 1, name: 'baseline', worksFrom: 1, sql: baseline(schema) },
    ...files.sort().map((file) => {
      const source = readFileSync(new URL(file, directory), 'utf8')
      const version = Number(file.slice(0, 4))
      const worksFrom = Number(/^-- works from: (\d+)$/m.exec(source)?.[1] ?? version)
      return { version, name: file.slice(5, -4), worksFrom, sql: inSchema(source, schema) }
    }),
  ]
}

export interface SchemaState {
  /** The version in the database; 0 when Holdfast was never installed there. */
  readonly version: number
  /** The oldest code that can work with it. */
  readonly worksFrom: number
  /** The revision of the functions in the database; 0 when there are none. */
  readonly revision: number
  /** Migrations that this version of Holdfast would still apply. */
  readonly pending: readonly Migration[]
  /** Rooms whose functions this version of Holdfast would still apply. */
  readonly pendingFunctions: readonly RoomFunctions[]
}

export async function schemaState(executor: Executor, schema: string): Promise<SchemaState> {
  const here = quoteIdentifier(schema)
  const [row] = await executor
    .query<{ version: number; works_from: number; revision: number; hashes: string }>(
      `select
         coalesce(pg_catalog.max(version), 0) as version,
         coalesce(pg_catalog.max(works_from), 0) as works_from,
         (select coalesce(pg_catalog.max(revision), 0) from ${here}.applied_functions) as revision,
         (select pg_catalog.json_object_agg(room, hash) from ${here}.applied_functions)::pg_catalog.text as hashes
       from ${here}.migration`,
    )
    .catch((error) => {
      const absent = [sqlstate.undefinedTable, sqlstate.undefinedSchema] as (string | undefined)[]
      if (absent.includes(sqlstateOf(error))) return [{ version: 0, works_from: 0, revision: 0, hashes: null }]
      throw error
    })
  const { version, works_from: worksFrom, revision, hashes } = row!
  return {
    version,
    worksFrom,
    revision,
    pending: allMigrations(schema).filter((migration) => migration.version > version),
    pendingFunctions: pendingFunctions(schema, revision, JSON.parse(hashes ?? '{}')),
  }
}

function pendingFunctions(schema: string, revision: number, hashes: Record<string, string>): RoomFunctions[] {
  if (revision > functionsRevision) return []
  const all = roomFunctions(schema)
  const differing = all.filter(({ room, hash }) => hashes[room] !== hash)
  // Also when only the number differs: else an instance of a revision in between would take its own functions for newer.
  return differing.length === 0 && revision < functionsRevision ? all : differing
}

/** Whether nothing is left to apply. */
export function isUpToDate(state: SchemaState): boolean {
  return state.pending.length === 0 && state.pendingFunctions.length === 0
}

/** The version of the schema that this version of Holdfast was made for. */
export function latestVersion(schema: string): number {
  return allMigrations(schema).length
}

/** Throws unless this version of Holdfast can work with the schema as it is. */
export function checkSchema(state: SchemaState, schema: string): void {
  const known = latestVersion(schema)
  if (state.version < known || state.worksFrom > known) throw new SchemaVersionError(state.version, known, schema)
  if (state.pendingFunctions.length > 0) {
    throw new SchemaVersionError(state.version, known, schema, { found: state.revision, expected: functionsRevision })
  }
}

/** How long a migration is tried when somebody holds locks on the tables that it changes. */
const maxTryMs = 60_000

/** The step behind all migrations. */
const functionsStep = (schema: string) => ({ version: latestVersion(schema), name: 'functions' })

export interface Applied {
  readonly migrations: readonly Migration[]
  /** Rooms whose functions were applied. */
  readonly functions: readonly RoomFunctions[]
}

/** Applies everything that is pending and returns it. Calls `onStep` before each step, with the number of steps that are left. */
export async function migrate(
  database: Database,
  schema: string,
  onStep: (next: { version: number; name: string }, left: number) => void = () => {},
): Promise<Applied> {
  const applied: Migration[] = []
  let state = await schemaState(database, schema)
  while (state.pending.length > 0) {
    const next = state.pending[0]!
    onStep(next, stepsOf(state))
    if (await applyMigration(database, schema, next, maxTryMs)) applied.push(next)
    state = await schemaState(database, schema)
  }
  const functions = state.pendingFunctions
  if (functions.length === 0) return { migrations: applied, functions: [] }
  onStep(functionsStep(schema), 1)
  return { migrations: applied, functions: (await applyFunctions(database, schema, maxTryMs)) ? functions : [] }
}

/** Number of steps that bring the schema up to date. */
export function stepsOf(state: SchemaState): number {
  return state.pending.length + (state.pendingFunctions.length > 0 ? 1 : 0)
}

/** Applies one migration, whole or not at all. False when another process has done so. */
export async function applyMigration(
  database: Database,
  schema: string,
  next: Migration,
  withinMs: number,
): Promise<boolean> {
  return await applyStep(database, schema, next, withinMs, ({ version }) =>
    version < next.version ? migrationStep(next, schema) : undefined,
  )
}

/** Applies the functions that differ, all or none. False when another process has done so, or has applied newer ones. */
async function applyFunctions(database: Database, schema: string, withinMs: number): Promise<boolean> {
  return await applyStep(database, schema, functionsStep(schema), withinMs, ({ pendingFunctions, revision }) =>
    pendingFunctions.length > 0 ? functionsScript(pendingFunctions, schema, revision === 0) : undefined,
  )
}

/** Runs one step in one transaction. `sqlFor` returns its SQL, or nothing if the state that it receives needs none. */
async function applyStep(
  database: Database,
  schema: string,
  step: { version: number; name: string },
  withinMs: number,
  sqlFor: (state: SchemaState) => string | undefined,
): Promise<boolean> {
  const beganAt = performance.now()
  const statements = loadStatements<
    'no_timeouts' | 'migration_lock' | 'is_schema_absent' | 'set_steps' | 'apply' | 'blocking_session'
  >(new URL('./migrate.sql', import.meta.url), schema)
  const apply = database.transaction(async (tx) => {
    // A snapshot from before the wait, as other levels have it, would not show what the others did meanwhile.
    await tx.query('set transaction isolation level read committed')
    // What the step names in a default or an index is looked up now, once for all who use it.
    await tx.query(localSettings)
    await tx.query(statements.no_timeouts.text)
    await tx.query(statements.migration_lock.text, [lockClass(schema, 'migration')])
    const [{ absent }] = (await tx.query<{ absent: boolean }>(statements.is_schema_absent.text, [
      quoteIdentifier(schema),
    ])) as [{ absent: boolean }]
    if (absent) await tx.query(createSchema(schema))
    await tx.query(migrationTable(schema))
    const sql = sqlFor(await schemaState(tx, schema))
    if (sql === undefined) return false
    // The wait for our turn counts, so that a fleet which waits in a row gives up together.
    const leftMs = Math.max(0, withinMs - (performance.now() - beganAt))
    await tx.query(statements.set_steps.text, [sql, `${leftMs} ms`])
    await tx.query(statements.apply.text)
    return true
  })
  return await apply.catch(async (error) => {
    if (!(error instanceof DatabaseError)) throw error
    if (error.sqlstate !== sqlstate.lockNotAvailable) throw new MigrationFailedError(step, error)
    const [holder] = await database
      .read<BlockingSession>(statements.blocking_session.text, [quoteIdentifier(schema)])
      .catch(() => [])
    throw new MigrationBlockedError(step, performance.now() - beganAt, holder, error)
  })
}

/** A migration, and its record. */
function migrationStep({ version, name, worksFrom, sql }: Migration, schema: string): string {
  const statements = sql.trim().replace(/;?$/, ';')
  return `-- migration ${version}: ${name}\n${statements}\ninsert into ${quoteIdentifier(schema)}.migration (version, name, works_from) values (${version}, '${name}', ${worksFrom});\n`
}

/** The SQL that `migrate` would run, for people who apply it by other means. */
export function migrationScript(
  { pending, pendingFunctions, revision }: Pick<SchemaState, 'pending' | 'pendingFunctions' | 'revision'>,
  schema: string,
): string {
  const start = pending[0]?.version === 1 ? [createSchema(schema)] : []
  const steps = pending.map((migration) => migrationStep(migration, schema))
  const functions = pendingFunctions.length > 0 ? [functionsScript(pendingFunctions, schema, revision === 0)] : []
  const settings = [
    '-- Whoever waits for a lock on a table holds up all who come later. If it fails of this, run it again.',
    "set local lock_timeout = '200ms';",
    'set local statement_timeout = 0;',
    '-- So that nothing in another schema is taken for what PostgreSQL has under the same name.',
    'set local search_path = pg_catalog, pg_temp;',
  ].join('\n')
  return ['begin;', settings, ...start, migrationTable(schema).trim(), ...steps, ...functions, 'commit;'].join('\n\n')
}

function createSchema(schema: string): string {
  return `create schema ${quoteIdentifier(schema)};`
}

function migrationTable(schema: string): string {
  // The class of the session numbers depends on the schema's name, which only the running code knows.
  const sessionClass = `create or replace function holdfast.session_class() returns integer
  language sql immutable parallel safe
  as $$ select ${lockClass(schema, 'session')} $$;
comment on function holdfast.session_class() is
  'The class, in the space of two integers, of the locks that vouch for sessions.';
`
  const tables = readFileSync(new URL('./bookkeeping.sql', import.meta.url), 'utf8')
  return inSchema(`${tables}\n${sessionClass}`, schema)
}
