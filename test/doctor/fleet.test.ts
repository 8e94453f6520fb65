// Tests problems of programs that use the database. Each test creates a problem, expects the finding, and applies the printed
// fix.

import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { Events } from '../../src/base/index.js'
import { defineJob } from '../../src/index.js'
import { InstanceName, openPgPool, RowPresence } from '../../src/postgres/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlSession, until, untilRegistered } from '../setup/facts.js'
import { open, roleUrl } from '../setup/instances.js'
import { applyFix, examineDatabase, fixes, found, idsOf, isGone } from './fixture.js'

let database: FreshDatabase
let url: string
beforeAll(async () => {
  database = await freshDatabase()
  url = database.url
})
afterAll(() => database.drop())

/** Waits until the doctor reports the finding. */
function untilFound(...[at, id, options]: Parameters<typeof found>) {
  return until(`the doctor reports ${id}`, async () => {
    const these = (await examineDatabase(at, options)).findings.filter((finding) => finding.id === id)
    return these.length > 0 && these
  })
}

test('doctor finds and fixes a transaction that stays open for long', async () => {
  const client = await sqlSession(url, { application_name: 'forgotten' })
  await client.query('begin; select txid_current()')
  const { rows } = await client.query('select pg_backend_pid() as pid')
  await untilFound(url, 'long-transaction', { toleranceMs: 100 })
  await isGone(url, 'long-transaction')
  const [finding] = await fixes(url, 'long-transaction', { toleranceMs: 100 })
  expect(finding).toMatchObject({ severity: 'risky', facts: { pid: rows[0].pid, state: 'idle in transaction' } })
  expect(finding!.text).toMatch(
    /^Session \d+ \(forgotten from 127.0.0.1\) .* Its last statement was: select pg_backend_pid/,
  )
})

test('doctor reports which rights a role lacks and what it cannot check', { timeout: 60_000 }, async () => {
  const { url: poor, role } = await roleUrl(url)
  const { url: other } = await roleUrl(url)
  const [lacks, ...blind] = await found(poor, ['missing-rights', 'unchecked'])
  expect(lacks!.text).toMatch(
    /^The role \w+ lacks rights on function job_roll_partitions, the schema itself, sequence fence, /,
  )
  expect(idsOf(blind)).toContain('unchecked: the schema version')
  for (const to of [poor, other]) {
    await applyFix(url, {
      ...lacks!,
      fix: { ...lacks!.fix, sql: lacks!.fix.sql.map((grant) => grant.replace(role, new URL(to).username)) },
    })
  }
  await open({ url: other, migrate: false })
  const these = await fixes(poor, ['cannot-end-sessions', 'unchecked'], { as: url })
  expect(these.map(({ severity, subject }) => subject ?? severity)).toEqual(['transactions of other roles', 'note'])

  const [noSchema] = await fixes(poor, 'cannot-migrate', { schema: 'other', as: url })
  expect(noSchema!.text).toContain('may not create it')
  await sql(url, 'update holdfast.applied_functions set revision = revision - 1')
  try {
    const [notOwner] = await fixes(poor, 'cannot-migrate', { as: url })
    expect(notOwner!.text).toContain(`the role ${role} does not own the schema`)
  } finally {
    await sql(url, 'update holdfast.applied_functions set revision = revision + 1')
  }
})

test('doctor finds settings of the database, of the role, of both, and of the connection', async () => {
  const { url: ownUrl, role } = await roleUrl(url, 'superuser')
  const name = new URL(url).pathname.slice(1)
  await sql(
    url,
    `alter database ${name} set statement_timeout = '1s';
     alter role ${role} set lock_timeout = 500;
     alter role ${role} in database ${name} set idle_in_transaction_session_timeout = '3s';
     alter role ${role} set synchronous_commit = off;
     alter role ${role} set default_transaction_read_only = on`,
  )
  const connectionUrl = new URL(ownUrl)
  connectionUrl.searchParams.set('options', '-c idle_session_timeout=4s')
  const { findings } = await examineDatabase(connectionUrl.href)
  const reported = findings.filter(({ id }) => ['timeout-short', 'commits-not-flushed', 'read-only'].includes(id))
  expect(reported.map(({ text }) => text).sort()).toEqual([
    'Transactions are read-only by default, set for the role',
    'idle_in_transaction_session_timeout is 3s, set for the role in this database',
    'idle_session_timeout is 4s, set by the connection',
    'lock_timeout is 500ms, set for the role',
    'statement_timeout is 1s, set for the database',
    'synchronous_commit is off, set for the role',
  ])
  expect(reported[0]).toMatchObject({ id: 'read-only', severity: 'wrong' })
  for (const finding of reported) if (finding.subject !== 'idle_session_timeout') await applyFix(ownUrl, finding)
  expect(
    idsOf((await examineDatabase(ownUrl)).findings.filter(({ id }) => reported.some((one) => one.id === id))),
  ).toEqual([])
})

test('doctor finds and fixes a database and a role with few connections left', async () => {
  const name = new URL(url).pathname.slice(1)
  const { url: ownUrl, role } = await roleUrl(url)
  await sql(url, `alter role ${role} connection limit 2; alter database ${name} connection limit 4`)
  for (const _ of [1, 2]) await sqlSession(ownUrl, { application_name: 'holdfast of a test' })
  await sqlSession(url)
  const these = await fixes(url, 'connections-short')
  expect(idsOf(these)).toEqual([`connections-short: ${name}`, `connections-short: ${role}`])
  expect(these[1]).toMatchObject({ severity: 'wrong', facts: { limited: 'role', used: 2, fleet: 2, most: 2 } })
})

test('doctor finds locks of an owner that is dead, and of an owner that may be dead', async () => {
  const holdfast = await open({ url })
  const named = await holdfast.locks.acquire(['invoice:42', 'report'])
  await untilRegistered(url, 'invoice:42', 'report')
  await named.release()
  const lock = 'select pg_advisory_lock($1::bigint)'
  const of = (name: string) => [holdfast.locks.key(name)]
  const gone = await sqlSession(url, { application_name: 'holdfast 0123456789ab' })
  await gone.query(lock, of('invoice:42'))
  const script = await sqlSession(url, { application_name: 'nightly.sh' })
  await script.query(lock, of('report'))
  // A living instance is idle too, between two heartbeats.
  const held = await holdfast.locks.acquire('held')
  const options = { expiryMs: 2_000, toleranceMs: 1 }
  await until(
    'both sessions have been idle for long enough',
    async () =>
      (await examineDatabase(url, options)).findings.filter(({ id }) => id === 'lock-of-dead-owner').length === 2,
  )
  const these = await fixes(url, 'lock-of-dead-owner', options)
  expect(these).toMatchObject([
    {
      severity: 'wrong',
      facts: { labels: 'invoice:42', application: 'holdfast 0123456789ab' },
      fix: { fixable: true },
    },
    { severity: 'risky', facts: { labels: 'report', application: 'nightly.sh' }, fix: { fixable: false } },
  ])
  expect(held.held).toBe(true)
  await (await holdfast.locks.acquire('invoice:42', { wait: 0 })).release()
})

test('doctor counts the lost instances, and calls the loss of half of the fleet risky', async () => {
  await open({ url, name: 'living' })
  const lose = (id: string) =>
    sql(
      url,
      `insert into holdfast.instance
       select (jsonb_populate_record(instance, '{"id": "${id}", "name": "${id}", "session": ${-Number(id)}, "backend_pid": null}')).*
       from holdfast.instance where name = 'living'`,
    )
  await lose('000000000001')
  const [half] = await found(url, 'instances-lost')
  expect(half).toMatchObject({ severity: 'risky', text: '1 of 2 instances is lost: 000000000001' })
  await open({ url, name: 'living too' })
  const { alive, lost, areas, findings } = await examineDatabase(url)
  expect({ alive, lost, note: areas.fleet.note }).toEqual({ alive: 2, lost: 1, note: 1 })
  expect(findings).toMatchObject([{ id: 'instances-lost', severity: 'note' }])
  await sql(url, "delete from holdfast.instance where id = '000000000001'")
})

test('doctor finds instances of two versions, and settings that the server has not accepted', {
  timeout: 60_000,
}, async () => {
  const client = postgres(url, { onnotice: () => {} })
  onTestFinished(() => client.end())
  const one = await open({ sql: client })
  const old = openPgPool({ connectionString: url })
  const presence = new RowPresence({
    database: old,
    schema: 'holdfast',
    namespace: 'x',
    name: new InstanceName(undefined, new Events()),
    retainDays: 7,
    expiryMs: 5_000,
    version: '0.0.1',
    events: new Events(),
  })
  await presence.whenPresent()
  const [finding] = await found(url, 'mixed-versions')
  expect(finding).toMatchObject({ severity: 'note', facts: { versions: expect.stringContaining('0.0.1, ') } })
  await applyFix(url, finding!)
  await presence.close()
  await old.close()
  expect((await one.doctor({ patience: '1h' })).findings).toEqual([])

  // As if something between the client and the server prevented the setting.
  const inPlaceOf = (signature: string, name: string, definition: string) =>
    sql(url, `alter function pg_catalog.${signature} rename to real_${name}; create function pg_catalog.${definition}`)
  const asBefore = (signature: string, name: string) =>
    sql(
      url,
      `drop function pg_catalog.${signature}; alter function pg_catalog.${signature.replace(name, `real_${name}`)} rename to ${name}`,
    )
  await inPlaceOf(
    'set_config(text, text, boolean)',
    'set_config',
    `set_config(name text, value text, is_local boolean) returns text language sql as $$
       select case when name = 'client_connection_check_interval' then value else pg_catalog.real_set_config(name, value, is_local) end $$`,
  )
  const instance = await open({ url })
  const these = await found(url, 'settings-refused')
  expect(these).toMatchObject([
    {
      severity: 'risky',
      subject: 'client_connection_check_interval',
      facts: { wanted: '500', got: '0', instance: null },
    },
    { severity: 'risky', facts: { instance: instance.name } },
  ])
  await instance.close()
  await asBefore('set_config(text, text, boolean)', 'set_config')
  await isGone(url, 'settings-refused')

  // As on a server whose advisory locks exist only for compatibility and exclude no other session.
  await inPlaceOf(
    'pg_try_advisory_xact_lock(integer, integer)',
    'pg_try_advisory_xact_lock',
    'pg_try_advisory_xact_lock(a integer, b integer) returns boolean return true',
  )
  const [unfit] = await found(url, 'session-locks')
  expect(unfit).toMatchObject({ severity: 'wrong', facts: { reason: 'locks-not-enforced' } })
  expect(unfit!.fix.text).toContain('Open with anchor: "none" and use leases')
  const without = await open({ url, anchor: 'none' })
  await without.leases.with('still', () => {})
  await asBefore('pg_try_advisory_xact_lock(integer, integer)', 'pg_try_advisory_xact_lock')
  await isGone(url, 'session-locks')
})

test('doctor does not hang if a session keeps a table locked', { timeout: 60_000 }, async () => {
  const migrating = await sqlSession(url)
  await migrating.query('begin; lock table holdfast.schedule')
  const unchecked = await found(url, 'unchecked')
  const finding = unchecked.find(({ subject }) => subject === 'schedules and their members')
  expect(finding).toMatchObject({ subject: 'schedules and their members', facts: { code: 'DATABASE_ERROR' } })
  await migrating.query('rollback')
  await isGone(url, 'unchecked')
})

test('doctor finds clocks that are wrong', async () => {
  const now = Date.now.bind(Date)
  vi.spyOn(Date, 'now').mockImplementation(() => now() - 90_000)
  const instance = await open({ url }).finally(() => vi.restoreAllMocks())
  expect(await found(url, 'clock-offset')).toMatchObject([
    { severity: 'risky', facts: { where: expect.stringContaining(instance.name) } },
  ])
  await instance.close()
  vi.spyOn(Date, 'now').mockImplementation(() => now() + 5_000)
  const [finding] = await found(url, 'clock-offset').finally(() => vi.restoreAllMocks())
  expect(finding).toMatchObject({
    severity: 'note',
    text: 'The clock of this machine is 5s ahead of the database clock (measured now)',
  })
  await isGone(url, 'clock-offset')
})

test('doctor finds a stored schedule whose rule it cannot read', async () => {
  const upsert = (rule: string) =>
    sql(url, "select holdfast.schedule_upsert('invalid', 'q', 'k', '1', cron => $1)", [rule])
  await upsert('0 9 * * *')
  await isGone(url, 'schedule-unreadable')
  await upsert('0 99 * * *')
  expect(await found(url, 'schedule-unreadable')).toMatchObject([
    {
      severity: 'risky',
      subject: 'invalid',
      facts: { namespace: 'default', rule: '{"cron":"0 99 * * *","timezone":"UTC"}' },
    },
  ])
  await sql(url, "select holdfast.schedule_remove('invalid')")
})

test('doctor finds jobs and ticks that no process runs', { timeout: 60_000 }, async () => {
  const holdfast = await open({ url, namespace: `it's ${randomBytes(3).toString('hex')}` })
  const { jobs, schedules } = holdfast
  const fails = defineJob<unknown>('fails', {
    queue: 'fails',
    retry: { attempts: 1 },
    run: () => Promise.reject(new Error('broken')),
  })
  const known = defineJob('known', { queue: 'mail', run: () => {} })
  const unknown = defineJob('unknown', { queue: 'mail', run: () => {} })
  const slow = defineJob('slow', { queue: '-slow', run: () => {} })
  await jobs.enqueueMany(fails, [1, 2])
  const failing = jobs.work([fails])
  await jobs.enqueue(unknown, null)
  await jobs.enqueue(slow, null)
  await jobs.pause('-slow')
  schedules.add('nightly', { cron: '0 3 * * *' }, () => {})
  const patience = { toleranceMs: 1 }

  expect(await untilFound(url, 'queue-unattended', patience)).toMatchObject([
    { severity: 'risky', subject: 'mail', facts: { ready: 1, namespace: holdfast.namespace } },
  ])
  const other = jobs.work([known])
  expect(await untilFound(url, 'kind-unhandled', patience)).toMatchObject([
    { severity: 'risky', subject: 'mail', facts: { kinds: 'unknown' } },
  ])
  await isGone(url, 'queue-unattended', patience)
  const right = jobs.work([unknown])
  await until(
    'the job has run',
    async () => !(await examineDatabase(url, patience)).findings.some(({ id }) => id === 'kind-unhandled'),
  )

  await fixes(url, 'paused-queue', patience)
  await until('both jobs are buried', async () =>
    (await examineDatabase(url)).findings.some(({ facts }) => facts.buried === 2),
  )
  await failing.close()
  await fixes(url, 'buried-jobs')
  await Promise.all([other.close(), right.close()])
  await until('the schedule is known', async () => (await schedules.list()).length === 1)
  await isGone(url, 'schedule-orphan')
  await holdfast.close()
  expect(await fixes(url, 'schedule-orphan')).toMatchObject([{ severity: 'risky', subject: 'nightly' }])
})
