// An attacker may create functions and operators in a schema that a session searches. Holdfast must never call them. This includes functions
// that match the argument types of a call better than those of pg_catalog, which PostgreSQL prefers independently of the search path.
import { readdirSync } from 'node:fs'
import { sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { examine } from '../../src/doctor/index.js'
import { Observer } from '../../src/observe/index.js'
import { loadStatements, openPgPool, type Statement } from '../../src/postgres/index.js'
import { examineDatabase, fixes } from '../doctor/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlSession } from '../setup/facts.js'
import { emptyDatabaseUrl, open, roleUrl } from '../setup/instances.js'
import { untilWaiting } from '../setup/locking.js'
import { severalHosts } from '../setup/pair.js'

let database: FreshDatabase
let url: string
beforeAll(async () => {
  database = await freshDatabase()
  url = database.url
})
afterAll(() => database.drop())

const source = fileURLToPath(new URL('../../src/', import.meta.url))
const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.sql') && !file.includes(`migrations${sep}`) && !file.includes(`demo${sep}`),
)
const statements: [string, Statement][] = files.flatMap((file) =>
  Object.values(loadStatements<string>(new URL(`file://${source}${file}`), 'holdfast')).map(
    (statement): [string, Statement] => [`${file}: ${statement.name}`, statement],
  ),
)

test('every function of the schema searches only pg_catalog', async () => {
  const functions = await sql<{ name: string; path: string | null }>(
    url,
    `select
       proname as name,
       (select split_part(setting, '=', 2) from unnest(proconfig) as setting where setting like 'search_path=%') as path
     from pg_proc
     where pronamespace = 'holdfast'::regnamespace`,
  )
  expect(functions.length).toBeGreaterThan(80)
  const withoutPath = functions.filter(({ path }) => path !== 'pg_catalog, pg_temp').map(({ name }) => name)
  // PostgreSQL must inline these functions or call them often, which a setting would prevent or slow down. The functions of the first list
  // qualify every name. Only functions that search pg_catalog call the functions of the second list.
  const fullyQualified = [
    'session_class',
    'lock_class',
    'is_leased',
    'job_blocks_dependent',
    'job_is_late',
    'job_bucket',
    'job_levels_of',
    'job_places',
    'job_text',
    'limit_fits',
    'notification_channel',
    'rate_after_ns',
  ]
  const calledWithin = ['flush_leases', 'lane_free_at', 'lane_is_empty', 'lane_room', 'job_resolve_links']
  expect(withoutPath.sort()).toEqual([...fullyQualified, ...calledWithin].sort())
  const called = statements.flatMap(([, { text }]) => calledWithin.filter((name) => text.includes(`.${name}(`)))
  expect(called).toEqual([])
})

test('only one function runs with the privileges of the owner, and not every role may call it', async () => {
  const definers = await sql(
    url,
    `select proname, has_function_privilege('public', oid, 'execute') as everybody
     from pg_proc where pronamespace = 'holdfast'::regnamespace and prosecdef`,
  )
  expect(definers).toEqual([{ proname: 'job_roll_partitions', everybody: false }])
})

const trapped = 'hijacked'

/** Copies the functions and operators of pg_catalog with the same names and types, if possible. Each copy throws. */
const exactCopies = `
do $$
declare
  one record;
  body constant text := 'begin raise exception ''${trapped}''; end';
begin
  for one in
    select proname, proargtypes::oid[] as types, format_type(prorettype, null) as result, proretset
    from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace
      and prokind = 'f'
      and provariadic = 0
      and proargmodes is null
      and not exists (select from pg_type where typtype = 'p' and pg_type.oid = any(proargtypes::oid[] || prorettype))
  loop
    execute format(
      'create function hostile.%I(%s) returns %s%s language plpgsql as %L',
      one.proname,
      (select string_agg(format_type(type, null), ', ' order by place) from unnest(one.types) with ordinality as t (type, place)),
      case when one.proretset then 'setof ' end,
      one.result,
      body
    );
  end loop;
  for one in
    select oprname, format_type(oprleft, null) as l, format_type(oprright, null) as r, format_type(oprresult, null) as result
    from pg_operator
    where oprkind = 'b'
      and oprnamespace = 'pg_catalog'::regnamespace
      and not exists (select from pg_type where typtype = 'p' and pg_type.oid in (oprleft, oprright, oprresult))
  loop
    execute format('create or replace function hostile.%I(%s, %s) returns %s language plpgsql as %L',
      'to ' || one.result, one.l, one.r, one.result, body);
    execute format('create operator hostile.%s (leftarg = %s, rightarg = %s, function = hostile.%I)',
      one.oprname, one.l, one.r, 'to ' || one.result);
  end loop;
end $$`

test('public functions are safe if a hostile schema and temporary tables precede pg_catalog', async () => {
  const client = await sqlSession(url)
  await client.query('create schema hostile')
  await client.query(exactCopies)
  await client.query(
    `create temporary table pg_class (oid oid, relnamespace oid);
     create temporary table pg_namespace (oid oid, nspname name);
     set search_path = hostile, pg_temp, pg_catalog, public`,
  )
  // Plain SQL calls the hostile functions.
  await expect(client.query('select length($1::text)', ['x'])).rejects.toThrow(trapped)
  await expect(client.query('select $1::integer # $2::integer', [1, 2])).rejects.toThrow(trapped)
  const calls: [string, unknown[]][] = [
    ['lock_key($1, $2)', ['billing', 'nightly-report']],
    ['pair_key($1, $2)', [1, 2]],
    ['space_key($1, $2, $3)', ['billing', 'rooms', 7]],
    ['advance_fence()', []],
    ['guard($1, $2, $3)', ['billing', 'nightly-report', 1]],
    ['is_present($1)', [1]],
    ['free_instance_name($1, $2, $3, $4)', ['billing', 'id', 'worker', 'worker#2']],
    ['is_leased($1)', [1]],
    ['leased_keys($1)', [[1, 2]]],
    ['acquire_leases($1, $2, $3, $4, $5, $6)', [[1], ['token'], [1000], [0], 'holder', 'holder']],
    ['release_leases($1, $2, $3, $4)', [[1], ['token'], [null], 'holdfast']],
    ['lock_class($1)', ['queue']],
    ['notification_channel()', []],
    ['enqueue($1, $2, $3, namespace => $4)', ['default', 'echo', '{"a": [1, "b"]}', 'billing']],
    ['enqueue($1, $2, $3, delay => $4, unique_key => $5)', ['default', 'echo', '{}', '1h', 'key']],
    ['enqueue($1, $2, $3, lane => $4)', ['default', 'echo', '{}', 'shop:7']],
    ['job_maintain($1)', [1000]],
    ['job_roll_partitions($1)', [7]],
    ['lane_faults()', []],
  ]
  for (const [call, values] of calls) {
    const error = await client.query(`select holdfast.${call}`, values).then(
      () => undefined,
      (failed: Error) => failed.message,
    )
    expect([call, error]).toEqual([call, undefined])
  }
})

test('sessions, readers and migrations of Holdfast call no function of a schema that precedes pg_catalog', async () => {
  const url = await emptyDatabaseUrl()
  // The sequence records a call even if its error is caught.
  const recordingCopies = exactCopies.replace(
    "'begin raise",
    "'begin perform pg_catalog.nextval(''hostile.called''); raise",
  )
  expect(recordingCopies).not.toBe(exactCopies)
  await sql(
    url,
    `create schema hostile; create sequence hostile.called; ${recordingCopies};
     create function hostile.format(text, text) returns text language plpgsql
       as 'begin perform pg_catalog.nextval(''hostile.called''); return null; end'`,
  )
  await sql(url, `alter database ${new URL(url).pathname.slice(1)} set search_path = hostile, pg_catalog`)
  const calls = async () =>
    (await sql<{ is_called: boolean }>(url, 'select is_called from hostile.called'))[0]!.is_called
  const [one, other] = [await open({ url }), await open({ url: severalHosts(url, url) })]
  const lock = await one.locks.acquire('name')
  const next = other.locks.acquire('name', { wait: '10s' })
  await untilWaiting(`${url}?options=-c%20search_path%3Dpg_catalog`, lock.keys[0]!)
  const database = openPgPool({ connectionString: url })
  const observer = new Observer(database)
  expect(await observer.locks()).toHaveLength(2)
  await observer.overview()
  await observer.jobs.search({})
  await observer.proof()
  const { findings } = await examine({ database })
  expect(findings.filter(({ severity }) => severity === 'unchecked')).toEqual([])
  expect(findings).toContainEqual(expect.objectContaining({ id: 'search-path', subject: 'hostile' }))
  await lock.release()
  await (await next).release()
  expect(await calls()).toBe(false)
  // Plain SQL calls the hostile functions.
  await expect(sql(url, 'select length($1::text)', ['x'])).rejects.toThrow(trapped)
  expect(await calls()).toBe(true)
  await database.close()
})

test('the doctor reports schemas that pool sessions search and in which other roles may create objects', async () => {
  const { url: ours, role } = await roleUrl(url)
  const { role: other } = await roleUrl(url)
  await sql(
    url,
    `create schema shop; grant usage on schema shop to public; grant create on schema shop to ${other}; create schema own authorization ${role}`,
  )
  await sql(url, `grant create on schema public to public; alter role ${role} set search_path = own, shop, public`)
  const findings = await fixes(ours, 'search-path', { as: url })
  expect(findings.map(({ severity, subject, text }) => [severity, subject, text])).toEqual([
    ['risky', 'shop', `Pool sessions search the schema shop, and ${other} can create objects in it`],
    ['risky', 'public', 'Pool sessions search the schema public, and every role can create objects in it'],
  ])
  await sql(url, `alter role ${role} set search_path = own, pg_catalog`)
  const examined = await examineDatabase(ours)
  expect(examined.findings.filter(({ id }) => id === 'search-path')).toMatchObject([
    { subject: 'own', text: 'The schema own is searched before pg_catalog' },
  ])
  await sql(url, `grant usage on schema holdfast to ${role}; alter role ${role} set search_path = holdfast, public`)
  expect((await examineDatabase(ours)).findings.filter(({ id }) => id === 'search-path')).toMatchObject([
    { subject: 'holdfast', text: "Pool sessions search Holdfast's schema holdfast" },
  ])
})
