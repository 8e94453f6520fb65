import { readdirSync, readFileSync } from 'node:fs'
import { internalClass } from '../base/index.js'
import {
  DatabaseError,
  type Holder,
  MigrationBlockedError,
  MigrationFailedError,
  SchemaVersionError,
} from './errors.js'
import { localSettings } from './node-postgres.js'
import type { Database, Executor } from './port.js'
import { sqlstate, sqlstateOf } from './sqlstate.js'
import { inSchema, loadStatements, quoteIdentifier } from './statements.js'

/**
 * The schema moves forward only, by numbered files, each in one transaction. Instances that start at once take turns
 * behind a transaction lock, so this is safe through any pooler. A migration names the oldest schema version whose
 * code can still live with it, so that the processes of a rolling deploy do not stumble over each other. The rules for those
 * who write one are in docs/operating/upgrades.md.
 */
export interface Migration {
  readonly version: number
  readonly name: string
  /** Code that was made for this version of the schema, or a later one, can go on working after the migration. */
  readonly worksFrom: number
  readonly sql: string
}

const directory = new URL('./migrations/', import.meta.url)

export function allMigrations(schema: string): Migration[] {
  return readdirSync(directory)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => {
      const source = readFileSync(new URL(file, directory), 'utf8')
      const version = Number(file.slice(0, 4))
      const worksFrom = Number(/^-- works from: (\d+)$/m.exec(source)?.[1] ?? version)
      return { version, name: file.slice(5, -4), worksFrom, sql: inSchema(source, schema) }
    })
}

export interface SchemaState {
  /** The version in the database; 0 when Holdfast was never installed there. */
  readonly version: number
  /** The oldest code that can work with it. */
  readonly worksFrom: number
  /** What this version of Holdfast would still apply. */
  readonly pending: readonly Migration[]
}

export async function schemaState(executor: Executor, schema: string): Promise<SchemaState> {
  const all = allMigrations(schema)
  const [row] = await executor
    .query<{ version: number; works_from: number }>(
      `select
         coalesce(pg_catalog.max(version), 0) as version,
         coalesce(pg_catalog.max(works_from), 0) as works_from
       from ${quoteIdentifier(schema)}.migration`,
    )
    .catch((error) => {
      const absent = [sqlstate.undefinedTable, sqlstate.undefinedSchema] as (string | undefined)[]
      if (absent.includes(sqlstateOf(error))) return [{ version: 0, works_from: 0 }]
      throw error
    })
  const { version, works_from: worksFrom } = row!
  return { version, worksFrom, pending: all.filter((migration) => migration.version > version) }
}

/** The version of the schema that this version of Holdfast was made for. */
export function knownVersion(schema: string): number {
  return allMigrations(schema).length
}

/** Throws unless this version of Holdfast can work with the schema as it is. */
export function checkSchema(state: SchemaState, schema: string): void {
  const known = knownVersion(schema)
  if (state.version < known || state.worksFrom > known) throw new SchemaVersionError(state.version, known, schema)
}

/** How long a migration is tried when somebody holds locks on the tables that it changes. */
const patienceMs = 60_000

/** Applies what is pending and answers with what was applied. `onStep` hears of each migration before it is applied. */
export async function migrate(
  database: Database,
  schema: string,
  onStep: (next: Migration, pending: number) => void = () => {},
): Promise<Migration[]> {
  const applied: Migration[] = []
  let state = await schemaState(database, schema)
  while (state.pending.length > 0) {
    const next = state.pending[0]!
    onStep(next, state.pending.length)
    if (await applyMigration(database, schema, next, patienceMs)) applied.push(next)
    state = await schemaState(database, schema)
  }
  return applied
}

/** Applies one migration, whole or not at all. False when somebody else has done so. */
export async function applyMigration(
  database: Database,
  schema: string,
  next: Migration,
  withinMs: number,
): Promise<boolean> {
  const beganAt = performance.now()
  const statements = loadStatements<'no_timeouts' | 'turn' | 'is_absent' | 'prepare' | 'apply' | 'in_the_way'>(
    new URL('./migrate.sql', import.meta.url),
    schema,
  )
  const apply = database.transaction(async (tx) => {
    // A snapshot from before the wait, as other levels have it, would not show what the others did meanwhile.
    await tx.query('set transaction isolation level read committed')
    // What the migration names in a default or an index is looked up now, once for all who use it.
    await tx.query(localSettings)
    await tx.query(statements.no_timeouts.text)
    await tx.query(statements.turn.text, [internalClass(schema, 'migration')])
    const [{ absent }] = (await tx.query<{ absent: boolean }>(statements.is_absent.text, [
      quoteIdentifier(schema),
    ])) as [{ absent: boolean }]
    if (absent) await tx.query(createSchema(schema))
    await tx.query(bookkeeping(schema))
    const now = await schemaState(tx, schema)
    if (now.version >= next.version) return false
    // The wait for our turn counts, so that a fleet which waits in a row gives up together.
    const leftMs = Math.max(0, withinMs - (performance.now() - beganAt))
    await tx.query(statements.prepare.text, [next.sql, `${leftMs} ms`])
    await tx.query(statements.apply.text)
    await tx.query(`insert into ${quoteIdentifier(schema)}.migration (version, name, works_from) values ($1, $2, $3)`, [
      next.version,
      next.name,
      next.worksFrom,
    ])
    return true
  })
  return await apply.catch(async (error) => {
    if (!(error instanceof DatabaseError)) throw error
    if (error.sqlstate !== sqlstate.lockNotAvailable) throw new MigrationFailedError(next, error)
    const [holder] = await database.read<Holder>(statements.in_the_way.text, [quoteIdentifier(schema)]).catch(() => [])
    throw new MigrationBlockedError(next, performance.now() - beganAt, holder, error)
  })
}

/** What `migrate` would run, for people who apply it by other means. */
export function migrationScript(pending: readonly Migration[], schema: string): string {
  const steps = pending.map(
    ({ version, name, worksFrom, sql }) =>
      `-- migration ${version}: ${name}\n${sql.trim()}\ninsert into ${quoteIdentifier(schema)}.migration (version, name, works_from) values (${version}, '${name}', ${worksFrom});\n`,
  )
  const start = pending[0]?.version === 1 ? [createSchema(schema)] : []
  const settings = [
    '-- Whoever waits for a lock on a table holds up all who come later. If it fails of this, run it again.',
    "set local lock_timeout = '200ms';",
    'set local statement_timeout = 0;',
    '-- So that nothing in another schema is taken for what PostgreSQL has under the same name.',
    'set local search_path = pg_catalog, pg_temp;',
  ].join('\n')
  return ['begin;', settings, ...start, bookkeeping(schema).trim(), ...steps, 'commit;'].join('\n\n')
}

function createSchema(schema: string): string {
  return `create schema ${quoteIdentifier(schema)};`
}

function bookkeeping(schema: string): string {
  // The class of the session numbers depends on the schema's name, which only the running code knows.
  return inSchema(
    `
create table if not exists holdfast.migration (
  version integer primary key,
  name text not null,
  works_from integer not null,
  applied_at timestamptz not null default now()
);
comment on table holdfast.migration is 'What has been applied to this schema.';
comment on column holdfast.migration.version is 'Counts from 1 without gaps.';
comment on column holdfast.migration.name is 'The name of the file.';
comment on column holdfast.migration.works_from is 'Code made for this version of the schema, or a later one, can work with it.';
comment on column holdfast.migration.applied_at is 'When.';
create or replace function holdfast.session_class() returns integer
  language sql immutable parallel safe
  as $$ select ${internalClass(schema, 'session')} $$;
comment on function holdfast.session_class() is
  'The class, in the space of two integers, of the locks that vouch for sessions.';
`,
    schema,
  )
}
