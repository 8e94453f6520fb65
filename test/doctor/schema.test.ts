// Tests problems of the installed schema. Each test creates a problem, expects the finding, and applies the printed fix.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allMigrations, latestVersion, migrationScript } from '../../src/postgres/index.js'
import { catalogOf } from '../setup/catalog.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlSession, until } from '../setup/facts.js'
import { applyFix, examineDatabase, fixes, found, idsOf, isGone } from './fixture.js'

let database: FreshDatabase
let url: string
beforeAll(async () => {
  database = await freshDatabase()
  url = database.url
})
afterAll(() => database.drop())

test('doctor finds and fixes tables, columns, sequences, functions, indexes and storage settings that differ', async () => {
  const before = await catalogOf(url, 'holdfast')
  await sql(
    url,
    `drop table holdfast.tick_log;
     alter table holdfast.schedule_member drop column since;
     drop sequence holdfast.wait_order;
     drop function holdfast.lane_faults;
     create or replace function holdfast.pair_key(class integer, object integer) returns bigint
       language sql immutable strict parallel safe as 'select 1::bigint';
     drop function holdfast.job_levels cascade;
     drop index holdfast.job_skipped_queue, holdfast.job_order, holdfast.job_end_bucket, holdfast.job_stopped_state;
     alter table holdfast.frontier reset (autovacuum_vacuum_cost_delay),
       set (autovacuum_vacuum_scale_factor = 0.5, autovacuum_enabled = false)`,
  )
  const { findings } = await examineDatabase(url)
  const ofSchema = findings.filter(({ id }) => /-missing$|-differ/.test(id))
  expect(idsOf(ofSchema)).toEqual([
    'tables-missing',
    'columns-missing',
    'sequences-missing',
    'functions-differ',
    'indexes-differ: missing',
    'indexes-differ: missing on job',
    'indexes-differ: missing on job_stopped',
    'indexes-differ: missing on job_end',
    'storage-differs: frontier',
  ])
  const texts = ofSchema.map(({ text }) => text).join('\n')
  for (const word of [
    'tick_log',
    'schedule_member.since',
    'wait_order',
    'job_levels, job_ready, job_live and lane_faults are missing',
    'pair_key is changed',
  ]) {
    expect(texts).toContain(word)
  }
  expect(texts).toContain('The index job_skipped_queue on job_skipped is missing')
  expect(texts).toContain('The index job_order on job is missing')
  expect(texts).toContain('The index job_end_bucket on job_end is missing')
  expect(texts).toContain('The index job_stopped_state on job_stopped is missing')
  expect(texts).toContain('autovacuum is off; autovacuum_vacuum_cost_delay is the default instead of 0')
  expect(ofSchema.map(({ fix }) => fix.fixable)).toEqual([false, false, false, true, true, false, false, false, true])

  for (const finding of ofSchema) await applyFix(url, finding)
  expect(
    idsOf((await examineDatabase(url)).findings.filter(({ id }) => ofSchema.some((one) => one.id === id))),
  ).toEqual([])
  // Comments and the order of settings do not matter.
  const plain = (line: string) =>
    line.replace(/ comment:.*/s, '').replace(/\{(.*)\}/, (_, options) => options.split(',').sort().join())
  expect((await catalogOf(url, 'holdfast')).map(plain).sort()).toEqual(before.map(plain).sort())
})

test('doctor finds and fixes an index whose creation was interrupted', async () => {
  await sql(url, 'drop index holdfast.delivery_expires_at')
  const writer = await sqlSession(url)
  await writer.query('begin; lock table holdfast.delivery in row exclusive mode')
  const maker = new pg.Client({ connectionString: url, application_name: 'maker' })
  maker.on('error', () => {})
  await maker.connect()
  const making = maker.query('create index concurrently delivery_expires_at on holdfast.delivery (expires_at)')
  const ended = expect(making).rejects.toThrow('canceling')
  await until('the creation waits for the writer and is cancelled', async () => {
    const [row] = await sql<{ done: boolean }>(
      url,
      `select pg_cancel_backend(pid) as done from pg_stat_activity
       where application_name = 'maker' and wait_event_type = 'Lock'`,
    )
    return row?.done
  })
  await ended
  await maker.end()
  await writer.query('rollback')
  const [finding] = await fixes(url, 'indexes-differ')
  expect(finding).toMatchObject({ severity: 'wrong', subject: 'invalid', facts: { indexes: 'delivery_expires_at' } })
})

test('doctor finds and fixes a table full of dead rows', async () => {
  await sql(
    url,
    `alter table holdfast.fence_guard set (autovacuum_enabled = false);
     insert into holdfast.fence_guard select n, n from generate_series(1, 30000) as n;
     delete from holdfast.fence_guard`,
  )
  // A session reports its statistics about once per second.
  const dead = "select from pg_stat_user_tables where relname = 'fence_guard' and n_dead_tup >= 30000"
  await until('the statistics contain the dead rows', async () => (await sql(url, dead)).length > 0)
  const these = await fixes(url, ['dead-rows', 'storage-differs'], { toleranceMs: 1 })
  expect(these).toMatchObject([
    { id: 'storage-differs', severity: 'risky', subject: 'fence_guard' },
    { id: 'dead-rows', severity: 'risky', subject: 'fence_guard', facts: { dead: 30_000, living: 0, vacuumed: null } },
  ])
})

test('doctor finds a schema that is missing, outdated or newer', { timeout: 60_000 }, async () => {
  const options = { schema: 'of another time' }
  expect(await found(url, 'not-installed', options)).toMatchObject([{ severity: 'wrong', fix: { fixable: true } }])
  const tables = { pending: allMigrations(options.schema), pendingFunctions: [], revision: 0 }
  await sql(url, migrationScript(tables, options.schema))
  const [finding] = await fixes(url, 'migrations-pending', options)
  expect(finding!.facts).toEqual({ version: latestVersion('holdfast'), needed: latestVersion('holdfast') })
  expect(finding!.text).toBe(
    'The functions in the schema of another time have revision 0, but this version of Holdfast needs revision 1. Modules whose functions differ: postgres, leases, limits, once, elections, shares and 4 more',
  )

  // Functions of another version of Holdfast may differ from those of this version.
  await sql(
    url,
    `update "of another time".applied_functions set revision = 999;
     create or replace function "of another time".pair_key(class integer, object integer) returns bigint
       language sql immutable strict parallel safe as 'select 1::bigint'`,
  )
  await isGone(url, ['migrations-pending', 'functions-differ'], options)
  await sql(url, `update "of another time".applied_functions set revision = 0, hash = 'another'`)
  await fixes(url, 'migrations-pending', options)
  await isGone(url, 'functions-differ', options)

  const table = '"of another time".migration'
  await sql(url, `insert into ${table} (version, name, works_from) values (999, 'of tomorrow', 1)`)
  expect(await found(url, 'schema-newer', options)).toMatchObject([{ severity: 'note' }])
  await sql(url, `update ${table} set works_from = 999 where version = 999`)
  expect(await found(url, 'schema-newer', options)).toMatchObject([{ severity: 'wrong' }])
  // A version of Holdfast that knows this migration would not report it.
  await sql(url, `delete from ${table} where version = 999`)
  await isGone(url, 'schema-newer', options)
})
