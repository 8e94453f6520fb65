import { describe, expect, onTestFinished, test } from 'vitest'
import { Holdfast, MigrationBlockedError, PermissionError, SchemaVersionError, UsageError } from '../../src/index.js'
import {
  allMigrations,
  applyMigration,
  lockClass,
  migrate,
  migrationScript,
  openPgPool,
  roomFunctions,
  schemaState,
} from '../../src/postgres/index.js'
import { SilentProxy } from '../fault/silent-proxy.js'
import { catalogOf, uncommented } from '../setup/catalog.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { databaseUrl, emptyDatabaseUrl, open, roleUrl } from '../setup/instances.js'
import { runsAll, waysOf } from '../setup/variants.js'

const known = allMigrations('holdfast').length

test('migrations count from 1 without gaps', () => {
  expect(allMigrations('holdfast').map(({ version }) => version)).toEqual(
    Array.from({ length: known }, (_, at) => at + 1),
  )
})

test('the first opening installs the schema, and the second changes nothing', async () => {
  const url = await emptyDatabaseUrl()
  const first = await open({ url })
  const applied = () =>
    sql(url, 'select version, name, works_from, applied_at from holdfast.migration order by version')
  const before = await applied()
  expect(before).toHaveLength(known)
  expect(before[0]).toMatchObject({ version: 1, name: 'baseline', works_from: 1 })
  await open({ url })
  expect(await applied()).toEqual(before)
  await expect(first.locks.tryAcquire('works')).resolves.not.toBeNull()
})

// Some users set a stricter isolation for a whole database. Instance A migrates while instance B waits for the migration lock.
// A snapshot that B has taken before the wait does not show the schema of A.
test.each(waysOf(['repeatable read', 'serializable', 'read committed']))(
  'twenty instances open an empty database at the same time, with isolation %s',
  { timeout: 90_000 },
  async (isolation) => {
    const url = await emptyDatabaseUrl()
    const database = new URL(url).pathname.slice(1)
    await sql(url, `alter database ${database} set default_transaction_isolation = '${isolation}'`)
    const fleet = await Promise.all(Array.from({ length: 20 }, () => open({ url })))
    expect(await sql(url, 'select count(*)::int from holdfast.instance')).toEqual([{ count: 20 }])
    expect(await sql(url, 'select count(*)::int from holdfast.migration')).toEqual([{ count: known }])
    const locks = await Promise.all(fleet.map(({ locks }) => locks.tryAcquire('one')))
    expect(locks.filter((lock) => lock !== null)).toHaveLength(1)
  },
)

test('short timeouts of the role do not interrupt a migration', async () => {
  const url = await emptyDatabaseUrl()
  const { url: ownUrl, role } = await roleUrl(url, 'superuser')
  const [{ version }] = (await sql(url, "select current_setting('server_version_num')::integer as version")) as [
    { version: number },
  ]
  const timeouts = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']
  if (version >= 170_000) timeouts.push('transaction_timeout')
  for (const timeout of timeouts) await sql(url, `alter role ${role} set ${timeout} = '700ms'`)
  // Another session migrates for longer than any of these timeouts.
  const other = await sqlSession(url)
  await other.query('begin')
  await other.query('select pg_advisory_xact_lock($1, 0)', [lockClass('holdfast', 'migration')])
  const database = openPgPool({ connectionString: ownUrl })
  const migrated = migrate(database, 'holdfast')
  migrated.catch(() => {})
  const waits = () =>
    sql(
      url,
      "select from pg_stat_activity where usename = $1 and wait_event = 'advisory' and clock_timestamp() > query_start + interval '1.5 s'",
      [role],
    )
  await until('the migration has waited for longer than each timeout', async () => (await waits()).length === 1)
  await other.query('commit')
  expect((await migrated).migrations).toHaveLength(known)
  await database.close()
})

test('a migration stops waiting for the migration lock at its time limit', async () => {
  const url = await emptyDatabaseUrl()
  const other = await sqlSession(url)
  await other.query('begin')
  await other.query('select pg_advisory_xact_lock($1, 0)', [lockClass('holdfast', 'migration')])
  const database = openPgPool({ connectionString: url })
  onTestFinished(() => database.close())
  const applying = applyMigration(database, 'holdfast', allMigrations('holdfast')[0]!, 500)
  await within(10_000, 'The migration', caught(MigrationBlockedError, applying))
})

test('the migration lock of a process that is frozen during its migration is released', async () => {
  const url = await emptyDatabaseUrl()
  const proxy = await SilentProxy.before(url)
  onTestFinished(() => proxy.close())
  const frozen = openPgPool({ connectionString: proxy.through(url) })
  const database = openPgPool({ connectionString: url })
  onTestFinished(() => database.close())
  const swallowed = proxy.swallowReplyTo('pg_advisory_xact_lock')
  const never = migrate(frozen, 'holdfast')
  never.catch(() => {})
  await swallowed
  proxy.silence('to-server', 'to-client')
  expect((await within(30_000, 'The migration', migrate(database, 'holdfast'))).migrations).toHaveLength(known)
}, 60_000)

test('a default of a table calls the function of PostgreSQL, even if the search path starts with another schema', async () => {
  const url = await emptyDatabaseUrl()
  await sql(
    url,
    `create schema hostile;
     create function hostile.now() returns timestamptz language sql as 'select null::timestamptz';
     create function hostile.clock_timestamp() returns timestamptz language sql as 'select null::timestamptz';
     alter database ${new URL(url).pathname.slice(1)} set search_path = hostile, pg_catalog`,
  )
  await (await open({ url })).close()
  const strangers = await sql(
    url,
    `select classid::regclass, objid from pg_catalog.pg_depend
     where refclassid = 'pg_proc'::regclass
       and refobjid in (select oid from pg_catalog.pg_proc where pronamespace = 'hostile'::regnamespace)`,
  )
  expect(strangers).toEqual([])
})

describe('another schema', () => {
  test.each(['with "quotes"', 'a\\b', ...(runsAll ? ['app', 'my-Schema', 'Über mütig', 'a.b', 'select'] : [])])(
    'another schema can be called %s',
    async (schema) => {
      const url = await emptyDatabaseUrl()
      const instance = await open({ url, schema })
      await instance.locks.with('name', async ({ fence }) => expect(fence).toBeGreaterThan(0))
      expect(await sql(url, "select nspname from pg_namespace where nspname = 'holdfast'")).toEqual([])
      expect(await uncommented(url, schema)).toEqual([])
    },
  )

  test.each(["it's", '$$', 'x'.repeat(64), 'ä'.repeat(32), 'zero\0byte'])(
    'another schema cannot be called %j',
    async (schema) => {
      const error = await caught(UsageError, Holdfast.open({ url: 'postgres://nowhere.invalid/x', schema }))
      expect(error.message).toContain(
        'Expected schema to be a name of 1 to 63 bytes without apostrophes or dollar signs',
      )
    },
  )

  test('another schema has its own tables in the same database', async () => {
    const url = await databaseUrl()
    const [one, other] = [await open({ url }), await open({ url, schema: 'other' })]
    const ids = (schema: string) => sql(url, `select id from ${schema}.instance`)
    expect(await ids('holdfast')).toEqual([{ id: one.id }])
    expect(await ids('other')).toEqual([{ id: other.id }])
  })
})

describe('a schema of another version', () => {
  test('a newer schema that requires newer code is refused with its version', async () => {
    const url = await databaseUrl()
    await sql(
      url,
      `insert into holdfast.migration (version, name, works_from) values (${known + 1}, 'later', ${known + 1})`,
    )
    const error = await caught(SchemaVersionError, Holdfast.open({ url }))
    expect(error).toMatchObject({ code: 'SCHEMA_TOO_NEW', found: known + 1, expected: known, retryable: false })
  })

  test('a newer schema that supports this version is accepted', async () => {
    const url = await databaseUrl()
    await sql(
      url,
      `insert into holdfast.migration (version, name, works_from) values (${known + 1}, 'later', ${known})`,
    )
    const instance = await open({ url })
    await instance.locks.with('name', () => {})
  })

  test('a missing schema is refused and not created with migrate: false', async () => {
    const url = await emptyDatabaseUrl()
    const absent = await caught(SchemaVersionError, Holdfast.open({ url, migrate: false }))
    expect(absent).toMatchObject({ code: 'SCHEMA_OUTDATED', found: 0, expected: known })
    expect(await sql(url, "select from pg_namespace where nspname = 'holdfast'")).toEqual([])
    expect(
      await sql(
        url,
        "select from pg_stat_activity where application_name like 'holdfast%' and datname = current_database()",
      ),
    ).toEqual([])
  })

  test('a current schema is opened with migrate: false', async () => {
    await open({ url: await databaseUrl(), migrate: false })
  })
})

describe('a role', () => {
  test('a role without the right to create can open an existing schema', async () => {
    const owner = await databaseUrl()
    const { url, role } = await roleUrl(owner)
    await sql(
      owner,
      `grant usage on schema holdfast to ${role};
       grant all on all tables in schema holdfast to ${role};
       grant all on all sequences in schema holdfast to ${role}`,
    )
    const instance = await open({ url })
    await instance.locks.with('name', () => {})
  })

  test('a role without the right to create gets a PermissionError if the schema does not exist', async () => {
    const { url } = await roleUrl(await emptyDatabaseUrl())
    const error = await caught(PermissionError, Holdfast.open({ url }))
    expect(error).toMatchObject({ code: 'PERMISSION_DENIED', retryable: false })
  })

  test('a role that can create only in the schema that was made for it can migrate', async () => {
    const owner = await emptyDatabaseUrl()
    const { url, role } = await roleUrl(owner)
    await sql(owner, `create schema holdfast authorization ${role}`)
    await open({ url })
  })
})

describe('the migration script', () => {
  test.each(['holdfast', 'my-Schema'])('the migration script makes the same schema %s as migrate', async (schema) => {
    const [migrated, scripted] = [await emptyDatabaseUrl(), await emptyDatabaseUrl()]
    const database = openPgPool({ connectionString: migrated })
    try {
      await migrate(database, schema)
      expect(await schemaState(database, schema)).toMatchObject({ version: known, pending: [], pendingFunctions: [] })
    } finally {
      await database.close()
    }
    const everything = { pending: allMigrations(schema), pendingFunctions: roomFunctions(schema), revision: 0 }
    await sql(scripted, migrationScript(everything, schema))
    const catalog = await catalogOf(migrated, schema)
    expect(catalog.length).toBeGreaterThan(50)
    expect(await catalogOf(scripted, schema)).toEqual(catalog)
    await open({ url: scripted, schema, migrate: false })
  })
})

test('everything in the schema has a comment', async () => {
  const url = await databaseUrl()
  expect(await uncommented(url, 'holdfast')).toEqual([])
  await sql(url, 'create table holdfast.mystery (a integer)')
  expect(await uncommented(url, 'holdfast')).toHaveLength(2)
})
