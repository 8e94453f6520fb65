import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, JobOutcome } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { type Database, openPgPool } from '../../src/postgres/index.js'
import { untilState, work } from '../jobs/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { insertDone } from '../setup/done-jobs.js'
import { sql } from '../setup/facts.js'
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

const totals = <Row extends { done: number; failedAttempts: number; failed: number }>(rows: readonly Row[]) =>
  rows.map(({ done, failedAttempts, failed }) => [done, failedAttempts, failed])

test('trends tell done jobs, failed attempts and failed jobs apart', async () => {
  const namespace = 'outcomes'
  const holdfast = await open({ url: fresh.url, namespace })
  const twice = { retry: { attempts: 2, backoff: 1 } } as const
  const fail = defineJob('fail', { queue: 'mail', ...twice, run: () => Promise.reject(new TypeError('always')) })
  const flaky = defineJob('flaky', {
    queue: 'mail',
    ...twice,
    run: (_: unknown, { attempt }) => (attempt === 1 ? Promise.reject(new Error('once')) : 'fine'),
  })
  const discard = defineJob('discard', { queue: 'post', run: () => JobOutcome.discard('not needed') })
  const plain = defineJob('plain', { queue: 'post', run: () => {} })
  const worker = work(holdfast, [fail, flaky, discard, plain])
  const failed = await holdfast.jobs.enqueue(fail, null)
  const retried = await holdfast.jobs.enqueue(flaky, null)
  const discarded = await holdfast.jobs.enqueue(discard, null)
  const done = await holdfast.jobs.enqueue(plain, null)
  await untilState(holdfast, failed.id, 'buried')
  await untilState(holdfast, retried.id, 'done')
  await untilState(holdfast, discarded.id, 'discarded')
  await untilState(holdfast, done.id, 'done')
  await worker.close()

  const found = await observer.trends({ namespace, hours: 1 })
  expect(found).toMatchObject({ columns: 60, columnMs: 60_000, isEstimated: false, oneOf: 1 })
  expect(found.kinds.map(({ kind }) => kind)).toEqual(['fail', 'flaky', 'plain'])
  expect(totals(found.kinds)).toEqual([
    [0, 2, 1],
    [1, 1, 0],
    [1, 0, 0],
  ])
  expect(found.kinds[0]).toMatchObject({
    took: null,
    queues: ['mail'],
    lastError: { job: failed.id, name: 'TypeError', message: 'always', at: expect.any(Date) },
  })
  // A job that was retried has a run time, but its waiting time includes the pause.
  expect(found.kinds[1]).toMatchObject({
    waited: null,
    took: { p50Ms: expect.any(Number) },
    lastError: { message: 'once' },
  })
  expect(found.kinds[2]).toMatchObject({ waited: { p50Ms: expect.any(Number) }, lastError: null })
  expect(found.queues.map(({ queue }) => queue)).toEqual(['mail', 'post'])
  expect(totals(found.queues)).toEqual([
    [1, 3, 1],
    [1, 0, 0],
  ])
  const sum = (of: 'done' | 'failedAttempts' | 'failed') => found.points.reduce((all, point) => all + point[of], 0)
  expect([sum('done'), sum('failedAttempts'), sum('failed')]).toEqual([2, 3, 1])

  const ofQueue = await observer.trends({ namespace, queue: 'post', hours: 1 })
  expect(ofQueue.kinds.map(({ kind }) => kind)).toEqual(['plain'])
  expect(ofQueue.queues).toHaveLength(2)
  const ofKind = await observer.trends({ namespace, kind: 'fail', hours: 1 })
  expect(ofKind.queues.map(({ queue }) => queue)).toEqual(['mail'])
  expect(ofKind.points.every((point) => point.done === 0)).toBe(true)
  expect((await observer.trends({ namespace: 'other', hours: 1 })).kinds).toEqual([])

  // A job that is retried by an operator keeps its failed attempts, but is no longer a failed job.
  await holdfast.jobs.retry(failed.id)
  expect(totals((await observer.trends({ namespace, hours: 1 })).kinds)[0]).toEqual([0, 2, 0])
})

test('trends read only the requested period, and count all jobs of a long history exactly', async () => {
  await sql(
    fresh.url,
    "insert into holdfast.queue (key, namespace, name) values (901, 'late', 'mail'), (902, 'late', 'post')",
  )
  // One job every 24 seconds for the last four hours, and 30,000 jobs in the minute that began two minutes ago.
  const jobs = (count: number, endedAt: string) => `
    select
      n + ${count} * 100 as id, case when n % 10 = 0 then 902 else 901 end as queue, 'k' as kind, 'null'::json as payload,
      ended - make_interval(secs => (n % 100 + 1) * 0.011) as enqueued_at,
      ended - make_interval(secs => (n % 100 + 1) * 0.010) as claimed_at, ended as ended_at
    from (select n, ${endedAt} as ended from generate_series(1, ${count}) as n) as jobs`
  await sql(fresh.url, insertDone(jobs(599, 'clock_timestamp() - make_interval(secs => 4 * 3600 - n * 24)')))
  const few = await observer.trends({ namespace: 'late', hours: 1 })
  expect(few).toMatchObject({ oneOf: 1, columnMs: 60_000, columns: 60 })
  expect(few.queues.map(({ queue }) => queue)).toEqual(['mail', 'post'])
  // The jobs of the last hour, and no others.
  expect(few.points.reduce((sum, { done }) => sum + done, 0)).toBe(149)
  for (const { waited, took, column } of few.points) {
    expect(column).toBeLessThan(60)
    expect(took!.p50Ms).toBeGreaterThan(waited!.p50Ms)
    expect(took!.p99Ms).toBeGreaterThanOrEqual(took!.p95Ms)
  }
  const post = await observer.trends({ namespace: 'late', queue: 'post', hours: 4 })
  expect(post.points.reduce((sum, { done }) => sum + done, 0)).toBe(59)

  await sql(
    fresh.url,
    insertDone(jobs(30_000, "clock_timestamp() - interval '2 minutes' + n * interval '1 millisecond'")),
  )
  const many = await observer.trends({ namespace: 'late', hours: 1 })
  expect(many.oneOf).toBeGreaterThan(1)
  expect(many.points.reduce((sum, { done }) => sum + done, 0)).toBeGreaterThanOrEqual(30_000)
  // The queues' shares are estimated from a sample.
  expect(Math.abs(many.queues[0]!.done - 27_134)).toBeLessThan(1_500)
})

test('activity shows the number of open instances', async () => {
  await sql(
    fresh.url,
    `insert into holdfast.instance_name (id, namespace, name, host, os_pid, sessions, opened_at, gone_at, ending)
     values ('past', 'active', 'past', 'web-1', 1, '{}', now() - interval '30 minutes', now() - interval '10 minutes', 'closed')`,
  )
  const { instances, held, waiting } = await observer.activity({ namespace: 'active' })
  expect([instances.length, held.length, waiting.length]).toEqual([60, 60, 60])
  expect(instances.reduce((sum, open) => sum + open, 0)).toBeGreaterThan(18)
  expect(instances.reduce((sum, open) => sum + open, 0)).toBeLessThan(22)
  expect([instances[0], instances[40], instances.at(-1)]).toEqual([0, 1, 0])
})
