import { describe, expect, onTestFinished, test } from 'vitest'
import { MigrationBlockedError, MigrationFailedError } from '../../src/index.js'
import {
  allMigrations,
  applyMigration,
  type Database,
  type Migration,
  openPgPool,
  schemaState,
} from '../../src/postgres/index.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { isInHurry } from '../setup/variants.js'
import { Load } from './load.js'

// A schema of the future under the code of today: every table has another column, every function was replaced, by itself.

const known = allMigrations('holdfast').length

const next: Migration = {
  version: known + 1,
  name: 'next',
  worksFrom: known,
  sql: `
    do $$
      declare
        one record;
      begin
        for one in
          select relname
          from pg_class
          where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p') and not relispartition
        loop
          execute format('alter table holdfast.%I add column added_later integer not null default 7', one.relname);
        end loop;
        for one in
          select pg_get_functiondef(oid) as definition from pg_proc where pronamespace = 'holdfast'::regnamespace
        loop
          execute one.definition;
        end loop;
      end
    $$;
    create table holdfast.later (id bigint primary key);
  `,
}

function databaseAt(url: string): Database {
  const database = openPgPool({ connectionString: url })
  onTestFinished(() => database.close())
  return database
}

const trying = "select from pg_stat_activity where query like '%holdfast_migration%' and wait_event_type = 'Lock'"

/** So long that whoever waits all the time is told from whoever waits a little. */
const tryMs = 6_000

const hasColumn = async (url: string) =>
  (await sql(url, "select from pg_attribute where attrelid = 'holdfast.job'::regclass and attname = 'added_later'"))
    .length > 0

describe.skipIf(isInHurry)('the next schema under the code of before', { timeout: 240_000 }, () => {
  test('many migrate at once while the fleet works: it is applied once, and nobody has trouble', async () => {
    const load = await Load.begin()
    const applied = await Promise.all(
      Array.from({ length: 8 }, () => applyMigration(databaseAt(load.url), 'holdfast', next, 60_000)),
    )
    expect(applied.filter((isOurs) => isOurs)).toHaveLength(1)
    expect(await hasColumn(load.url)).toBe(true)
    await load.goesOn()
    // Who comes now has the older code, too, as when a process of a deployment that is under way starts again.
    await load.joins()
    await load.goesOn()
    await load.endsWell()
  })

  test('somebody holds the tables for long: it gives way, says who, and has changed nothing', async () => {
    const load = await Load.begin()
    const dump = await sqlSession(load.url, { application_name: 'a dump' })
    await dump.query('begin; select from holdfast.job limit 1')
    const [{ pid }] = (await dump.query('select pg_backend_pid() as pid')).rows
    const calm = await load.calm()
    const error = await caught(MigrationBlockedError, applyMigration(databaseAt(load.url), 'holdfast', next, tryMs))
    expect(error).toMatchObject({ code: 'MIGRATION_BLOCKED', retryable: true, version: next.version, pid })
    expect(error.message).toMatch(
      /and changed nothing: session \d+ \(a dump, idle in transaction\) has been using the tables/,
    )
    const slowest = load.takeSlowest()
    console.info(`While a migration was tried for ${tryMs} ms, the slowest took, in ms: ${JSON.stringify(slowest)}`)
    expect(Math.max(...Object.values(slowest))).toBeLessThan(1_000 + 3 * calm)
    expect(await hasColumn(load.url)).toBe(false)
    expect((await schemaState(databaseAt(load.url), 'holdfast')).version).toBe(known)
    await load.goesOn()
    const applying = applyMigration(databaseAt(load.url), 'holdfast', next, 60_000)
    await until('it is being tried', async () => (await sql(load.url, trying)).length > 0)
    await dump.query('commit')
    expect(await applying).toBe(true)
    await load.goesOn()
    await load.endsWell()
  })

  test('a step fails: nothing of it is left, and it says so', async () => {
    const load = await Load.begin()
    const broken = { ...next, sql: `${next.sql}; select 1 / 0` }
    const error = await caught(MigrationFailedError, applyMigration(databaseAt(load.url), 'holdfast', broken, 60_000))
    expect(error).toMatchObject({ code: 'MIGRATION_FAILED', retryable: false, version: next.version })
    expect(error.message).toBe(
      `Migration ${next.version} (next) failed and changed nothing: division by zero (SQLSTATE 22012)`,
    )
    expect(await hasColumn(load.url)).toBe(false)
    await load.goesOn()
    await load.endsWell()
  })
})
