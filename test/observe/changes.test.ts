import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, NonRetryableError } from '../../src/index.js'
import { type Change, changeText, Observer } from '../../src/observe/index.js'
import { type Database, openPgPool } from '../../src/postgres/index.js'
import { untilState, work } from '../jobs/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'

let fresh: FreshDatabase
let database: Database
let observer: Observer
beforeAll(async () => {
  fresh = await freshDatabase()
  database = openPgPool({ connectionString: fresh.url })
  observer = new Observer(database)
})
afterAll(async () => {
  await database.close()
  await fresh.drop()
})

const changesOf = async (namespace: string, ...kinds: Change['kind'][]) =>
  (await observer.changes({ namespace, kinds: kinds.length > 0 ? kinds : undefined })).rows.map(changeText)

/** Pretends that instances have been open since earlier, because a short life is not reported. */
const age = (namespace: string) =>
  sql(fresh.url, "update holdfast.instance_name set opened_at = opened_at - interval '1 minute' where namespace = $1", [
    namespace,
  ])

test('instances that join, close, are drained or are lost are changes', async () => {
  const namespace = 'fleet'
  const [closed, drained, lost, open_] = await Promise.all(
    ['closed', 'drained', 'lost', 'open'].map((name) => open({ url: fresh.url, namespace, name })),
  )
  expect(await changesOf(namespace, 'instances-joined')).toEqual([
    expect.stringMatching(/^4 instances \(.*, …\) joined$/),
  ])
  await age(namespace)
  await closed!.close()
  await drained!.drain()
  await drained!.close()
  await sql(fresh.url, 'select holdfast.note_lost_instances(array_agg(session)) from holdfast.instance where id = $1', [
    lost!.id,
  ])
  expect((await changesOf(namespace, 'instances-closed', 'instances-drained', 'instances-lost')).sort()).toEqual([
    'instance closed closed',
    'instance drained closed after draining',
    'instance lost lost: no clean shutdown',
  ])
  expect(await changesOf('another')).toEqual([])
  expect(open_!.name).toBe('open')
})

test('an instance with a worker is lost as soon as another worker takes its jobs over', async () => {
  const namespace = 'takeover'
  // What a killed process leaves: the rows of the instance and of its worker, whose session number is not locked.
  await sql(
    fresh.url,
    `with dead as (select nextval('holdfast.session')::integer as session),
     named as (
       insert into holdfast.instance_name (id, namespace, name, host, os_pid, sessions, opened_at)
       select 'dead', 'takeover', 'dead', 'web-1', 1, array[session], now() - interval '1 hour' from dead
     ),
     worker as (
       insert into holdfast.worker (session, number, instance, queues) select session, 1, 'dead', '{}' from dead
     )
     insert into holdfast.instance (id, namespace, name, session, host, os_pid, version, expiry_ms, pooler, generation)
     select 'dead', 'takeover', 'dead', session, 'web-1', 1, '1', 10000, 'none', generation from dead, holdfast.server_generation`,
  )
  const alive = await open({ url: fresh.url, namespace })
  work(alive, [defineJob('job', { run: () => {} })])
  await until('the loss is noticed', async () => (await changesOf(namespace, 'instances-lost')).length > 0)
  expect(await changesOf(namespace, 'instances-lost')).toEqual(['instance dead lost: no clean shutdown'])
})

test('the first instance with another version is a deployment', async () => {
  const namespace = 'deploys'
  const openWith = async (version: string) => {
    const holdfast = await open({ url: fresh.url, namespace, version })
    await age(namespace)
    return holdfast
  }
  const old = await openWith('1.0.0')
  await openWith('1.0.0')
  await openWith('1.1.0')
  await openWith('1.1.0')
  expect(await changesOf(namespace, 'deployed')).toEqual(['version 1.1.0 deployed', 'version 1.0.0 deployed'])
  // An open instance has this version, so this is no rollback.
  await openWith('1.0.0')
  await old.close()
  expect(await changesOf(namespace, 'deployed')).toHaveLength(2)
})

test('a value that cannot be a version is rejected', async () => {
  for (const version of ['', 'x'.repeat(64), 'two words', 7]) {
    await expect(open({ url: fresh.url, version: version as string })).rejects.toThrow(
      'Expected the version of the program to be a string of 1 to 63 printable ASCII characters without spaces',
    )
  }
})

test('queues, schedules, elections, failed jobs and acts are changes', async () => {
  const namespace = 'work'
  const holdfast = await open({ url: fresh.url, namespace, name: 'worker' })
  const fail = defineJob('fail', { queue: 'mail', run: () => Promise.reject(new NonRetryableError('no disk')) })
  work(holdfast, [fail])
  const jobs = [await holdfast.jobs.enqueue(fail, undefined), await holdfast.jobs.enqueue(fail, undefined)]
  for (const { id } of jobs) await untilState(holdfast, id, 'buried')
  await holdfast.jobs.pause('mail')
  holdfast.schedules.add('nightly', { cron: '0 3 * * *' }, () => {})
  holdfast.elections.campaign(
    'index',
    ({ signal }) => new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve())),
  )
  await sql(
    fresh.url,
    `insert into holdfast.audit (visitor, act, subject, params, consequence, ended_at, outcome, reason)
     values ('ada', 'pause-queue', 'queue mail', '{"namespace": "work"}', '', now(), 'done', 'a test')`,
  )
  const expected = [
    '2 jobs of kind fail failed: NonRetryableError: no disk',
    'ada: pause-queue queue mail: a test',
    'election index: worker is the leader',
    'instance worker joined',
    'queue mail added',
    'queue mail paused',
    'schedule nightly added: 0 3 * * *',
  ]
  await until(
    'everything is recorded',
    async () => (await changesOf(namespace)).filter((text) => !text.startsWith('version')).length >= expected.length,
  )
  expect((await changesOf(namespace)).filter((text) => !text.startsWith('version')).sort()).toEqual(expected)
  const { rows } = await observer.changes({ namespace, kinds: ['jobs-failed'] })
  expect(rows).toMatchObject([{ count: jobs.length, subjects: ['fail'], job: jobs[1]!.id, namespace }])
  expect((await observer.changes({ namespace, limit: 2 })).rows).toHaveLength(2)
})
