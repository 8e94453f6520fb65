import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { type Database, openPgPool } from '../../src/postgres/index.js'
import { drain } from '../../src/testing/index.js'
import { work } from '../jobs/fixture.js'
import { add, untilMember, untilRuns } from '../schedules/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { insertDone } from '../setup/done-jobs.js'
import { sql, sqlSession, until, untilRegistered } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'

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

const seen = ({ namespace }: Holdfast) => observer.overview({ namespace })
test('the overview shows names with their holders and waiters, contended names first', async () => {
  const [a, b, c] = (await openFleet(fresh.url, 3)) as [Holdfast, Holdfast, Holdfast]
  await a.locks.acquire('free')
  await a.locks.acquire('wanted')
  await b.locks.acquire('shared', { mode: 'shared' })
  await c.locks.acquire('shared', { mode: 'shared' })
  // One call waits in the server. The other calls of its process wait behind it, and are known from their notes.
  await untilRegistered(fresh.url, 'free', 'wanted', 'shared')
  for (let call = 0; call < 3; call++) b.locks.acquire('wanted').catch(() => {})
  await c.leases.acquire('leased', { ttl: '1m' })
  await untilRegistered(fresh.url, 'leased')
  const { counts, locks, leases, instances } = await until('all holds and waits are recorded', async () => {
    const overview = await seen(a)
    // A wait in the server restarts now and then, and is not visible for a moment.
    const isInServer = overview.locks[0]?.waiter?.pid != null
    return (
      overview.counts.waiters === 3 && isInServer && overview.locks.every(({ heldMs }) => heldMs !== null) && overview
    )
  })
  expect(counts).toMatchObject({ instances: 3, gone: 0, held: 3, waitedFor: 1, waiters: 3, leased: 1 })
  expect(locks.map(({ label, mode, holders, waiters }) => [label, mode, holders, waiters])).toEqual([
    ['wanted', 'exclusive', 1, 3],
    ['free', 'exclusive', 1, 0],
    ['shared', 'shared', 2, 0],
  ])
  expect(locks[0]).toMatchObject({
    namespace: a.namespace,
    key: a.locks.key('wanted'),
    holder: { instance: a.id, osPid: process.pid, pid: expect.any(Number) },
    fence: expect.any(Number),
    waiter: { instance: b.id, pid: expect.any(Number) },
    waitedMs: expect.any(Number),
  })
  expect(locks[1]).toMatchObject({ waiter: null, waitedMs: null })
  expect(leases).toMatchObject([{ label: 'leased', held: true, holder: { instance: c.id }, ttlMs: 60_000 }])
  expect(instances.map(({ id, alive, held, waiting, leased }) => [id, alive, held, waiting, leased])).toEqual(
    expect.arrayContaining([
      [a.id, true, 2, 0, 0],
      [b.id, true, 1, 3, 0],
      [c.id, true, 1, 0, 1],
    ]),
  )
  // A lock outside of all namespaces is shown if no namespace is selected.
  const other = await sqlSession(fresh.url, { application_name: 'psql' })
  await other.query('select pg_advisory_lock(42)')
  const everywhere = (await observer.overview()).locks.find(({ key }) => key === '42')
  expect(everywhere).toMatchObject({ label: null, holder: { instance: null, application: 'psql' }, heldMs: null })
})

test('the overview shows queues with their jobs, their throughput and their latencies', async () => {
  const [holdfast] = (await openFleet(fresh.url, 1)) as [Holdfast]
  const quick = defineJob<unknown>('quick', { queue: 'post', run: () => {} })
  const hold = defineJob('hold', {
    queue: 'post',
    run: (_: unknown, { signal }) =>
      new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  await holdfast.jobs.enqueueMany(quick, Array(10).fill(null))
  await drain(holdfast, [quick])
  // The worker does not know the kind of the quick jobs.
  const worker = work(holdfast, [hold], { concurrency: 1 })
  await holdfast.jobs.enqueue(hold, null)
  await until('the job runs', () => worker.running === 1)
  await holdfast.jobs.enqueueMany(quick, [1, 2])
  await holdfast.jobs.enqueue(quick, 3, { delay: '1h' })
  await holdfast.jobs.enqueue(defineJob('other', { queue: 'other', run: () => {} }), null)
  await holdfast.jobs.pause('other')
  const { queues, overMs, counts } = await seen(holdfast)
  expect(counts.queues).toBe(2)
  expect(overMs).toBeLessThanOrEqual(60_000)
  expect(queues).toMatchObject([
    { name: 'other', ready: 1, running: 0, workers: 0, pausedMs: expect.any(Number), donePerSecond: 0, waited: null },
    { name: 'post', ready: 2, readyIs: 'counted', running: 1, waiting: 1, workers: 1, buried: 0, pausedMs: null },
  ])
  const post = queues[1]!
  // The history of the day may be a few seconds old.
  expect(post.donePerSecond).toBeCloseTo((10 * 1_000) / overMs, 1)
  for (const latency of [post.waited!, post.took!]) expect(latency.p99Ms).toBeGreaterThanOrEqual(latency.p50Ms)
  // The first job in order is the running job, which is not ready.
  expect(post.oldestMs).toBeLessThan(overMs)
  expect(await observer.overview({ namespace: 'nowhere' })).toMatchObject({ counts: { queues: 0 }, queues: [] })
})

test('the overview estimates a large backlog, reads only the end of a large history, and shows the period', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const one = openPgPool({ connectionString: url }, 1)
  onTestFinished(() => one.close())
  await holdfast.jobs.enqueue(defineJob('quick', { queue: 'post', run: () => {} }), null)
  const [{ key }] = (await sql<{ key: string }>(url, 'select key::text from holdfast.queue')) as [{ key: string }]
  const backlog = `
    insert into holdfast.job (id, entry, era, queue, priority, kind, payload)
    select number, number, (select era from holdfast.server_generation), ${key}, 0, 'quick', '1'
    from (select nextval('holdfast.job_number') as number from generate_series(1, 5000)) as numbered`
  await sql(url, backlog)
  const { queues } = await new Observer(one).overview()
  expect(queues).toMatchObject([{ ready: 5_001, readyIs: 'estimated' }])
  // Job numbers of other queues are not counted.
  await sql(url, backlog.replace(key, '1'))
  const [post] = (await new Observer(one).overview({ namespace: 'default' })).queues
  expect(post!.readyIs).toBe('estimated')
  expect(post!.ready).toBeGreaterThan(4_500)
  expect(post!.ready).toBeLessThan(5_500)

  const ends = (from: number, count: number) =>
    sql(
      url,
      insertDone(`
        select number as id, ${key}::bigint as queue, 'quick' as kind, to_json(repeat('x', 200)) as payload,
          now() - interval '3 s' as enqueued_at, now() - interval '1 s' as claimed_at, now() as ended_at
        from generate_series(${from}, ${from + count - 1}) as number`),
    )
  await ends(1_000_000, 8_000)
  await ends(2_000_000, 10)
  const { queues: after, overMs } = await new Observer(one).overview({ namespace: 'default' })
  expect(overMs).toBeLessThan(60_000)
  // Ends at the first moment of the period are left out, and so is the time before it.
  expect(after[0]!.donePerSecond).toBeLessThan(8_000 / (overMs / 1_000))
  expect(after[0]!.donePerSecond).toBeGreaterThan(1_000 / (overMs / 1_000))
  expect(after[0]).toMatchObject({ waited: { p50Ms: 2_000, p99Ms: 2_000 }, took: { p50Ms: 1_000, p99Ms: 1_000 } })
  // The plan starts reading at a page.
  const plans = await sql<{ 'QUERY PLAN': string }>(
    url,
    `explain (costs off) select from holdfast.job_end
     where ended_at >= (select now() - interval '1 day') and ctid >= (select '(100,0)'::text)::tid`,
  )
  expect(plans.map((row) => row['QUERY PLAN']).join('\n')).toContain('Tid Range Scan')
})

test('the overview shows a schedule whose rule a newer version has written, without the rule', async () => {
  const [holdfast] = (await openFleet(fresh.url, 1)) as [Holdfast]
  add(holdfast, 'moons', { every: '7d' })
  await untilMember(holdfast, 'moons')
  await sql(fresh.url, `update holdfast.schedule set rule = '{"moon":"full"}' where namespace = $1`, [
    holdfast.namespace,
  ])
  expect((await seen(holdfast)).schedules).toMatchObject([{ name: 'moons', rule: null, members: 1 }])
})

test('the overview shows schedules, and trouble of each kind', async () => {
  const [holdfast] = (await openFleet(fresh.url, 1)) as [Holdfast]
  const { namespace } = holdfast
  add(holdfast, 'good', { every: '7d' })
  add(holdfast, 'bad', { cron: '0 3 1 1 *', timezone: 'Europe/London' }, () => {
    throw new Error('the moon is full')
  })
  for (const name of ['good', 'bad']) await untilMember(holdfast, name)
  for (const name of ['good', 'bad']) await holdfast.schedules.run(name)
  await untilRuns(holdfast, 'good', ['done'])
  await untilRuns(holdfast, 'bad', ['failed'])
  await holdfast.schedules.pause('good')
  await sql(
    fresh.url,
    `insert into holdfast.gap (schedule, first_at, last_at, ticks, reason)
     select key, now() - interval '2 min', now() - interval '1 min', 2, 'missed' from holdfast.schedule where namespace = $1 and name = 'good'`,
    [namespace],
  )
  const fail = defineJob('fail', {
    queue: 'post',
    retry: { attempts: 1 },
    run: () => {
      throw new Error('no such address')
    },
  })
  const { id } = await holdfast.jobs.enqueue(fail, null)
  await drain(holdfast, [fail])
  await holdfast.leases.acquire('lost', { ttl: '1m' })
  const key = holdfast.locks.key('lost')
  await sql(fresh.url, "update holdfast.lease set expires_at = now() - interval '1 s' where key = $1", [key])
  await sql(
    fresh.url,
    `insert into holdfast.instance (id, name, namespace, session, host, os_pid, version, expiry_ms, pooler, generation, reconnects, expires_at)
     values ($2, 'web-9/99', $1, 2147483646, 'web-9', 99, '1', 1000, 'any', 0, 0, now()), ($3, 'web-8/98', $1, 2147483645, 'web-8', 98, '1', 1000, 'any', 0, 2, now() + interval '1 h')`,
    [namespace, randomBytes(6).toString('hex'), randomBytes(6).toString('hex')],
  )
  const { schedules, trouble, counts, instances, queues } = await seen(holdfast)
  expect(counts).toMatchObject({ schedules: 2, instances: 3, gone: 1 })
  expect(instances.at(-1)).toMatchObject({ host: 'web-9', alive: false })
  expect(queues).toMatchObject([{ name: 'post', buried: 1, donePerSecond: 0, took: null }])
  expect(schedules).toMatchObject([
    {
      name: 'bad',
      rule: { cron: '0 3 1 1 *', timezone: 'Europe/London' },
      paused: false,
      members: 1,
      nextAt: expect.any(Date),
      running: 0,
      last: { state: 'failed', instance: holdfast.id },
    },
    { name: 'good', paused: true, last: { state: 'done', tookMs: expect.any(Number) } },
  ])
  expect(trouble.map(({ kind, subject }) => `${kind} ${subject}`).sort()).toEqual([
    'buried post',
    'failed bad',
    'gap good',
    'gone web-9/99',
    'lease lost',
    'reconnected web-8/98',
  ])
  expect(trouble.find(({ kind }) => kind === 'buried')).toMatchObject({
    job: id,
    instanceName: holdfast.name,
    detail: 'fail: no such address',
  })
  expect(trouble.find(({ kind }) => kind === 'failed')).toMatchObject({ detail: 'the moon is full' })
  expect(trouble.find(({ kind }) => kind === 'gap')).toMatchObject({ detail: '2 without a run: missed' })
})
