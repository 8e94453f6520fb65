// Tests the proof of session locks: if session locks cannot be trusted, opening reports the reason. Servers that are not
// available here are imitated: in one database, functions replace those of PostgreSQL.
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Holdfast, SessionLocksUnavailableError, UsageError } from '../../src/index.js'
import { type Executor, loadStatements, openPgPool, Session, type SessionStatements } from '../../src/postgres/index.js'
import { type ProofStatements, proveSessionLocks } from '../../src/postgres/prove-session-locks.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

/**
 * Creates a database in which `functions` replace those of the server. The functions of the server are renamed to `real_…`.
 */
async function imitation(...functions: string[]): Promise<string> {
  const url = await databaseUrl()
  for (const one of functions) {
    const [signature, name] = /^(\w+)\([^)]*\)/.exec(one)!
    await sql(url, `alter function pg_catalog.${signature} rename to real_${name}; create function pg_catalog.${one}`)
  }
  return url
}

const yes = (name: string) => `${name}(integer, integer) returns boolean language sql as 'select true'`
const cockroach = [yes('pg_try_advisory_lock'), yes('pg_try_advisory_xact_lock')]

async function refusal(url: string): Promise<SessionLocksUnavailableError> {
  const error = await caught(SessionLocksUnavailableError, Holdfast.open({ url }))
  expect(error).toMatchObject({ code: 'SESSION_LOCKS_UNAVAILABLE', retryable: false })
  await until('no session of the refused instance is left', async () => {
    const left = await sql(
      url,
      "select pid from pg_stat_activity where application_name like 'holdfast%' and datname = current_database()",
    )
    return left.length === 0
  })
  return error
}

test('locks that are not enforced are detected by their behaviour', async () => {
  expect((await refusal(await imitation(...cockroach))).reason).toBe('locks-not-enforced')
})

test.each([
  ['CockroachDB CCL v25.4.0 (x86_64)', 'locks-not-enforced'],
  ['PostgreSQL 17.5 (PGlite 0.3.0)', 'single-session'],
])('a server that calls itself %s is recognized by its version', async (version, reason) => {
  const url = await imitation(`version() returns text language sql as $$ select '${version}' $$`)
  expect((await refusal(url)).reason).toBe(reason)
})

test('connections that share the session of PGlite are refused with anchor: none too', async () => {
  const url = await imitation(`version() returns text language sql as $$ select 'PostgreSQL 18.3 (PGlite 0.5.0)' $$`)
  const error = await caught(UsageError, Holdfast.open({ url, anchor: 'none' }))
  expect(error.message).toBe(
    'Expected a pool with one connection, because all connections to this server share one session, got several connections to PostgreSQL 18.3 (PGlite 0.5.0)',
  )
  expect(error.hint).toContain('createPgConfig')
})

test('a pool with a connection of its own opens no other connection', async () => {
  const connection = new pg.Connection()
  const pool = new pg.Pool({ connectionString: await databaseUrl(), connection, max: 1 } as pg.PoolConfig)
  onTestFinished(() => pool.end())
  const refused = await caught(SessionLocksUnavailableError, Holdfast.open({ pool }))
  expect(refused.reason).toBe('single-session')
  const instance = await open({ pool, anchor: 'none' })
  await instance.limits.with('name', { max: 1 }, () => {})
  const sessions = await sql(
    pool.options.connectionString!,
    "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
  )
  expect(sessions).toHaveLength(1)
})

const load = <Name extends string>(file: string) =>
  loadStatements<Name>(new URL(`../../src/postgres/${file}`, import.meta.url), 'holdfast')
const truth: ProofStatements = load('prove-session-locks.sql')

/** Returns the reason why session locks are refused if `other` runs the queries outside the session. */
async function disproof(other: (session: Session) => Executor, statements = truth): Promise<string> {
  const session = await Session.open({
    connection: { connectionString: fresh.url },
    applicationName: 'holdfast single',
    expiryMs: 10_000,
    statements: load<keyof SessionStatements>('session.sql'),
  })
  try {
    const proof = proveSessionLocks(session, other(session), statements, 'holdfast')
    return (await caught(SessionLocksUnavailableError, proof)).reason
  } finally {
    await session.close()
  }
}

test('session locks alone that are not enforced are detected too', async () => {
  const pool = openPgPool({ connectionString: fresh.url })
  // This statement reports that the session has the lock, but does not acquire the lock.
  const lock = { name: '', text: 'select num_nulls($1::integer, $2::integer) = 0' }
  expect(await disproof(() => pool, { ...truth, lock })).toBe('locks-not-enforced')
  await pool.close()
})

test('a single session behind all connections is detected by its behaviour', async () => {
  const itself = (session: Session) => ({
    async query<Row>(text: string, values: readonly unknown[] = []) {
      const [row] = await session.run({ name: '', text }, values)
      const columns = text === truth.try_lock.text ? ['granted', 'backend_pid'] : ['identity']
      return [Object.fromEntries(columns.map((column, at) => [column, row![at]]))] as Row[]
    },
  })
  expect(await disproof(itself)).toBe('single-session')
})

test('a server that is too old throws a UsageError', async () => {
  const old = `current_setting(text) returns text language sql as $$
    select case $1 when 'server_version_num' then '130022' else pg_catalog.real_current_setting($1) end $$`
  const url = await imitation(old, `version() returns text language sql as $$ select 'PostgreSQL 13.22' $$`)
  const error = await caught(UsageError, Holdfast.open({ url }))
  expect(error.message).toBe('Expected PostgreSQL 14 or later, got PostgreSQL 13.22')
  expect(error.hint).toContain('idle_session_timeout')
})

test('a search path that starts with another schema has no effect', async () => {
  const url = await databaseUrl()
  await sql(
    url,
    `create schema fake; create function fake.lock_key(text, text) returns bigint language sql as 'select 1::bigint';
     alter database ${new URL(url).pathname.slice(1)} set search_path = fake, pg_catalog, public`,
  )
  const instance = await open({ url })
  await instance.locks.with('name', () => {})
})

test('the proof leaves no lock behind', async () => {
  const url = await databaseUrl()
  const instance = await open({ url })
  const rows = await sql(
    url,
    `select mode, classid = (holdfast.session_class()::bigint & 4294967295)::oid as presence
     from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
  )
  expect(rows).toEqual([{ mode: 'ExclusiveLock', presence: true }])
  expect(instance.id).toMatch(/^[0-9a-f]{12}$/)
})

test('an instance with anchor: none opens without the proof, and its session locks throw an explanation', async () => {
  const instance = await open({ url: await imitation(...cockroach), anchor: 'none' })
  const error = await caught(SessionLocksUnavailableError, instance.locks.acquire('name'))
  expect(error).toMatchObject({ reason: 'no-anchor' })
  expect(await caught(SessionLocksUnavailableError, instance.locks.tryAcquire('name'))).toMatchObject({
    reason: 'no-anchor',
  })
})

test('a database whose pool was closed refuses queries', async () => {
  const database = openPgPool({ connectionString: fresh.url })
  await database.close()
  await expect(database.query('select 1')).rejects.toThrow()
})
