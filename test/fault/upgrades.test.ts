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
import { runsAll } from '../setup/variants.js'
import { Load } from './load.js'

// A future schema under the present code. Every table has another column, and every function is replaced by itself.

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

/** Time limit of a blocked migration. Operations that wait for all of this time are clearly slower than those that wait for single tries. */
const tryMs = 6_000

const hasColumn = async (url: string) =>
  (await sql(url, "select from pg_attribute where attrelid = 'holdfast.job'::regclass and attname = 'added_later'"))
    .length > 0

describe.skipIf(!runsAll)('the next schema under the present code', { timeout: 240_000 }, () => {
  test('a migration that eight instances start at the same time is applied once and causes no error in the fleet', async () => {
    const load = await Load.start()
    const applied = await Promise.all(
      Array.from({ length: 8 }, () => applyMigration(databaseAt(load.url), 'holdfast', next, 60_000)),
    )
    expect(applied.filter((isOurs) => isOurs)).toHaveLength(1)
    expect(await hasColumn(load.url)).toBe(true)
    await load.continues()
    // An instance with the older code opens, as when a process starts again during a deployment.
    await load.addInstance()
    await load.continues()
    await load.finishes()
  })

  test('a migration whose tables stay locked stops, reports the blocking session, and changes nothing', async () => {
    const load = await Load.start()
    const dump = await sqlSession(load.url, { application_name: 'a dump' })
    await dump.query('begin; select from holdfast.job limit 1')
    const [{ pid }] = (await dump.query('select pg_backend_pid() as pid')).rows
    const undisturbed = await load.slowestUndisturbed()
    const error = await caught(MigrationBlockedError, applyMigration(databaseAt(load.url), 'holdfast', next, tryMs))
    expect(error).toMatchObject({ code: 'MIGRATION_BLOCKED', retryable: true, version: next.version, pid })
    expect(error.message).toMatch(
      /and changed nothing: session \d+ \(a dump, idle in transaction\) has been using the tables/,
    )
    const slowest = load.takeSlowest()
    console.info(`A migration was tried for ${tryMs} ms. Slowest operations, in ms: ${JSON.stringify(slowest)}`)
    expect(Math.max(...Object.values(slowest))).toBeLessThan(1_000 + 3 * undisturbed)
    expect(await hasColumn(load.url)).toBe(false)
    expect((await schemaState(databaseAt(load.url), 'holdfast')).version).toBe(known)
    await load.continues()
    const applying = applyMigration(databaseAt(load.url), 'holdfast', next, 60_000)
    await until('the migration waits for a lock', async () => (await sql(load.url, trying)).length > 0)
    await dump.query('commit')
    expect(await applying).toBe(true)
    await load.continues()
    await load.finishes()
  })

  test('a migration that fails changes nothing and reports the error', async () => {
    const load = await Load.start()
    const broken = { ...next, sql: `${next.sql}; select 1 / 0` }
    const error = await caught(MigrationFailedError, applyMigration(databaseAt(load.url), 'holdfast', broken, 60_000))
    expect(error).toMatchObject({ code: 'MIGRATION_FAILED', retryable: false, version: next.version })
    expect(error.message).toBe(
      `Migration ${next.version} (next) failed and changed nothing: division by zero (SQLSTATE 22012)`,
    )
    expect(await hasColumn(load.url)).toBe(false)
    await load.continues()
    await load.finishes()
  })
})
