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
 * Migrates the schema in two kinds of steps, each in one transaction:
 *
 * - **migrations** change tables, forward only. The first migration is the baseline, which consists of each module's
 *   schema.sql. Later migrations are the numbered files in migrations/.
 * - **functions** follow all migrations. They are replaced whenever a module's text differs from the text that was
 *   applied last. An older instance, whose revision is lower, does not replace newer functions.
 *
 * Instances that start at the same time wait for each other with a transaction lock, so this is safe through any pooler. The rules for
 * schema changes are in docs/operating/upgrades.md.
 */
export interface Migration {
  readonly version: number
  readonly name: string
  /** Oldest schema version whose code can still work after this migration. */
  readonly worksFrom: number
  readonly sql: string
}

/**
 * Directory for the numbered migrations. The package does not contain this directory until there are numbered
 * migrations.
 */
const directory = new URL('./migrations/', import.meta.url)

export function allMigrations(schema: string): Migration[] {
  const files = existsSync(directory) ? readdirSync(directory).filter((file) => file.endsWith('.sql')) : []
  return [
    {
      version: 1,
      name: 'baseline',
      worksFrom: 1,
      // In most processes the schema is already installed, so the files are read only when they are needed.
      get sql() {
        return baseline(schema)
      },
    },
    ...files.sort().map((file) => {
      const source = readFileSync(new URL(file, directory), 'utf8')
      const version = Number(file.slice(0, 4))
      const worksFrom = Number(/^-- works from: (\d+)$/m.exec(source)?.[1] ?? version)
      return { version, name: file.slice(5, -4), worksFrom, sql: inSchema(source, schema) }
    }),
  ]
}

export interface SchemaState {
  /** Schema version in the database. 0 if the schema is not installed. */
  readonly version: number
  /** Oldest schema version whose code can work with the database's schema. */
  readonly worksFrom: number
  /** Revision of the functions in the database. 0 if there are none. */
  readonly revision: number
  /** Migrations that have not been applied yet. */
  readonly pending: readonly Migration[]
  /** Modules whose functions have not been applied yet. */
  readonly pendingFunctions: readonly RoomFunctions[]
  /** Version text of the server. Undefined if the schema is not installed. */
  readonly server: string | undefined
}

export async function schemaState(executor: Executor, schema: string): Promise<SchemaState> {
  const here = quoteIdentifier(schema)
  const reading = executor
    .query<{ version: number; works_from: number; revision: number; hashes: string; server: string }>(
      `select
         coalesce(pg_catalog.max(version), 0) as version,
         coalesce(pg_catalog.max(works_from), 0) as works_from,
         (select coalesce(pg_catalog.max(revision), 0) from ${here}.applied_functions) as revision,
         (select pg_catalog.json_object_agg(room, hash) from ${here}.applied_functions)::pg_catalog.text as hashes,
         pg_catalog.version() as server
       from ${here}.migration`,
    )
    .catch((error) => {
      const absent = [sqlstate.undefinedTable, sqlstate.undefinedSchema] as (string | undefined)[]
      if (absent.includes(sqlstateOf(error)))
        return [{ version: 0, works_from: 0, revision: 0, hashes: null, server: undefined }]
      throw error
    })
  // The process reads its own files while it waits for the server's response.
  roomFunctions(schema)
  const [row] = await reading
  const { version, works_from: worksFrom, revision, hashes, server } = row!
  return {
    version,
    worksFrom,
    revision,
    pending: allMigrations(schema).filter((migration) => migration.version > version),
    pendingFunctions: pendingFunctions(schema, revision, JSON.parse(hashes ?? '{}')),
    server,
  }
}

function pendingFunctions(schema: string, revision: number, hashes: Record<string, string>): RoomFunctions[] {
  if (revision > functionsRevision) return []
  const all = roomFunctions(schema)
  const differing = all.filter(({ room, hash }) => hashes[room] !== hash)
  // If all hashes match but the recorded revision is lower, all functions are applied to record the new revision. Otherwise an instance
  // whose revision is between the two would consider its own functions newer.
  return differing.length === 0 && revision < functionsRevision ? all : differing
}

export function isUpToDate(state: SchemaState): boolean {
  return state.pending.length === 0 && state.pendingFunctions.length === 0
}

/** Returns the latest schema version that this version of Holdfast contains. */
export function latestVersion(schema: string): number {
  return allMigrations(schema).length
}

/** Throws unless this version of Holdfast can work with the schema. */
export function checkSchema(state: SchemaState, schema: string): void {
  const known = latestVersion(schema)
  if (state.version < known || state.worksFrom > known) throw new SchemaVersionError(state.version, known, schema)
  if (state.pendingFunctions.length > 0) {
    throw new SchemaVersionError(state.version, known, schema, { found: state.revision, expected: functionsRevision })
  }
}

/** Maximum time for which a migration waits for the migration lock and for table locks. */
const maxTryMs = 60_000
/** Maximum time between two statements of a migration. A frozen process must not hold the migration lock for longer. */
const maxIdleMs = 10_000

const functionsStep = (schema: string) => ({ version: latestVersion(schema), name: 'functions' })

export interface Applied {
  readonly migrations: readonly Migration[]
  /** Modules whose functions were applied. */
  readonly functions: readonly RoomFunctions[]
}

/** Applies and returns all pending migrations and functions. Calls `onStep` before each step, with the number of remaining steps. */
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

/** Returns the number of steps that are needed to bring the schema up to date. */
export function stepsOf(state: SchemaState): number {
  return state.pending.length + (state.pendingFunctions.length > 0 ? 1 : 0)
}

/** Applies one migration in one transaction. Returns false if another process has applied it. */
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

/** Applies all pending functions in one transaction. Returns false if another process has applied these or newer functions. */
async function applyFunctions(database: Database, schema: string, withinMs: number): Promise<boolean> {
  return await applyStep(database, schema, functionsStep(schema), withinMs, ({ pendingFunctions, revision }) =>
    pendingFunctions.length > 0 ? functionsScript(pendingFunctions, schema, revision === 0) : undefined,
  )
}

/** Runs one step in one transaction. `sqlFor` returns the SQL, or undefined if the step is no longer needed. */
async function applyStep(
  database: Database,
  schema: string,
  step: { version: number; name: string },
  withinMs: number,
  sqlFor: (state: SchemaState) => string | undefined,
): Promise<boolean> {
  const beganAt = performance.now()
  const statements = loadStatements<
    'set_timeouts' | 'migration_lock' | 'is_schema_absent' | 'set_steps' | 'apply' | 'blocking_session'
  >(new URL('./migrate.sql', import.meta.url), schema)
  const apply = database.transaction(async (tx) => {
    // PostgreSQL uses this search path to resolve names in defaults and indexes when it creates them.
    await tx.query(localSettings())
    // The limit includes the wait for the migration lock, so that all waiting processes give up at the same time. PostgreSQL interprets 0 as
    // no limit.
    const leftMs = () => Math.max(1, Math.ceil(withinMs - (performance.now() - beganAt)))
    await tx.query(statements.set_timeouts.text, [`${leftMs()}ms`, `${maxIdleMs}ms`])
    await tx.query(statements.migration_lock.text, [lockClass(schema, 'migration')])
    const [{ absent }] = (await tx.query<{ absent: boolean }>(statements.is_schema_absent.text, [
      quoteIdentifier(schema),
    ])) as [{ absent: boolean }]
    if (absent) await tx.query(createSchema(schema))
    await tx.query(migrationTable(schema))
    const sql = sqlFor(await schemaState(tx, schema))
    if (sql === undefined) return false
    await tx.query(statements.set_steps.text, [sql, `${leftMs()} ms`])
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

/** Returns a migration's SQL, with the insert that records it. */
function migrationStep({ version, name, worksFrom, sql }: Migration, schema: string): string {
  const statements = sql.trim().replace(/;?$/, ';')
  return `-- migration ${version}: ${name}\n${statements}\ninsert into ${quoteIdentifier(schema)}.migration (version, name, works_from) values (${version}, '${name}', ${worksFrom});\n`
}

/** Returns the SQL that `migrate` would run, for people who apply it with other tools. */
export function migrationScript(
  { pending, pendingFunctions, revision }: Pick<SchemaState, 'pending' | 'pendingFunctions' | 'revision'>,
  schema: string,
): string {
  const start = pending[0]?.version === 1 ? [createSchema(schema)] : []
  const steps = pending.map((migration) => migrationStep(migration, schema))
  const functions = pendingFunctions.length > 0 ? [functionsScript(pendingFunctions, schema, revision === 0)] : []
  const settings = [
    '-- A session that waits for a table lock blocks all later sessions. If this timeout cancels the script, run the script again.',
    "set local lock_timeout = '200ms';",
    'set local statement_timeout = 0;',
    '-- Unqualified names resolve only to built-in objects, not to objects with the same name in other schemas.',
    'set local search_path = pg_catalog, pg_temp;',
  ].join('\n')
  return ['begin;', settings, ...start, migrationTable(schema).trim(), ...steps, ...functions, 'commit;'].join('\n\n')
}

function createSchema(schema: string): string {
  return `create schema ${quoteIdentifier(schema)};`
}

function migrationTable(schema: string): string {
  // The lock class depends on the schema's name, so the class is computed here.
  const sessionClass = `create or replace function holdfast.session_class() returns integer
  language sql immutable parallel safe
  as $$ select ${lockClass(schema, 'session')} $$;
comment on function holdfast.session_class() is
  'Class of the advisory locks on session numbers. A session that holds the lock on its number is present.';
`
  const tables = readFileSync(new URL('./bookkeeping.sql', import.meta.url), 'utf8')
  return inSchema(`${tables}\n${sessionClass}`, schema)
}
