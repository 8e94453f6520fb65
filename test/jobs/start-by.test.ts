// Tests deadlines for the start of a job: the `startBy` option and the state `expired`.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, type Holdfast, type HoldfastEvents, JobFailedError, UsageError } from '../../src/index.js'
import { passTime } from '../../src/testing/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { gate, untilState, work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const start = (namespace: string) => open({ url: fresh.url, namespace })
const deadlines = async (id: number) =>
  (await sql(fresh.url, 'select from holdfast.job_deadline where id = $1', [id])).length

/** A worker whose only slot is busy until the gate opens. */
async function busyWorker(holdfast: Holdfast) {
  const [started, finish] = [gate(), gate()]
  const ran: number[] = []
  const block = defineJob('block', {
    run: async () => {
      started.open()
      await finish.opened
    },
  })
  const timely = defineJob('timely', { run: (_: null, job) => void ran.push(job.id) })
  work(holdfast, [block, timely], { concurrency: 1 })
  await holdfast.jobs.enqueue(block)
  await started.opened
  return { timely, finish, ran }
}

test('a job that no worker claims before startBy expires, with an event, and never runs', async () => {
  const holdfast = await start('late')
  const events: HoldfastEvents['job.expired'][] = []
  holdfast.on('job.expired', (event) => events.push(event))
  const { timely, finish, ran } = await busyWorker(holdfast)
  const late = await holdfast.jobs.enqueue(timely, null, { startBy: 50 })
  const other = await holdfast.jobs.enqueue(timely, null, { startBy: '1h' })
  const found = await untilState(holdfast, late.id, 'expired')
  expect(found).toMatchObject({ error: { name: 'JobExpiredError', code: 'JOB_EXPIRED' }, claimedAt: undefined })
  expect(await caught(JobFailedError, holdfast.jobs.result(late.id))).toMatchObject({ state: 'expired' })
  await until('the event is emitted', () => events.length === 1)
  expect(events[0]).toEqual({ id: late.id, kind: 'timely', queue: 'default', startBy: found.startBy })
  finish.open()
  await untilState(holdfast, other.id, 'done')
  expect(ran).toEqual([other.id])
  expect([await deadlines(late.id), await deadlines(other.id)]).toEqual([0, 0])
  expect(await sql(fresh.url, 'select * from holdfast.job_lost()')).toEqual([])
})

test('a claim refuses a job whose deadline has passed before maintenance has ended the job', async () => {
  const holdfast = await start('edge')
  const timely = defineJob('timely', { run: () => 1 })
  const { id } = await holdfast.jobs.enqueue(timely, null, { startBy: '1h', priority: 1 })
  const next = await holdfast.jobs.enqueue(timely, null)
  // The deadline passes, and maintenance is excluded.
  const session = await sqlSession(fresh.url)
  await session.query("select pg_advisory_lock(holdfast.lock_class('job maintenance'), 0)")
  await sql(
    fresh.url,
    `with late as (update holdfast.job_deadline set start_by = now() where id = $1 returning start_by)
     update holdfast.job set links = jsonb_build_object('startBy', start_by) from late where id = $1`,
    [id],
  )
  work(holdfast, [timely])
  await untilState(holdfast, next.id, 'done')
  expect((await holdfast.jobs.find(id))!.state).toBe('ready')
  expect(await sql(fresh.url, 'select * from holdfast.job_lost()')).toEqual([])
  await session.query("select pg_advisory_unlock(holdfast.lock_class('job maintenance'), 0)")
  await untilState(holdfast, id, 'expired')
})

test('a job that a worker has claimed in time does not expire when it is retried after its deadline', async () => {
  const holdfast = await start('retried')
  const timely = defineJob('timely', {
    retry: { backoff: '1h' },
    run: (_: null, job) => {
      if (job.attempt === 1) throw new Error('once')
    },
  })
  work(holdfast, [timely])
  const { id } = await holdfast.jobs.enqueue(timely, null, { startBy: '1m' })
  expect(await untilState(holdfast, id, 'waiting')).toMatchObject({ failed: 1, startBy: undefined })
  await passTime(holdfast, '2h')
  expect((await untilState(holdfast, id, 'done')).failed).toBe(1)
})

test('passTime expires delayed, ready and dependent jobs, their dependents are cancelled, and retry runs a job anyway', async () => {
  const holdfast = await start('time')
  const timely = defineJob('timely', { run: () => 1, lanes: { max: 1 } })
  const never = await holdfast.jobs.enqueue(timely, null, { delay: '3h' })
  const delayed = await holdfast.jobs.enqueue(timely, null, { delay: '1h', startBy: '90m', unique: 'once' })
  const laned = await holdfast.jobs.enqueue(timely, null, { lane: 'a', startBy: new Date(Date.now() + 60_000) })
  const queued = await holdfast.jobs.enqueue(timely, null, { lane: 'a', startBy: '1m' })
  const needs = await holdfast.jobs.enqueue(timely, null, { after: [never], startBy: '1m' })
  const dependent = await holdfast.jobs.enqueue(timely, null, { after: [delayed] })
  await untilState(holdfast, laned.id, 'ready')
  await passTime(holdfast, '2h')
  for (const { id } of [delayed, laned, queued, needs]) await untilState(holdfast, id, 'expired')
  await holdfast.jobs.find(dependent.id)
  work(holdfast, [timely])
  expect((await untilState(holdfast, dependent.id, 'cancelled')).error?.message).toBe(
    `The job ${delayed.id}, which it waited for, was expired`,
  )
  expect(await sql(fresh.url, 'select * from holdfast.lane_faults()')).toEqual([])
  const again = await holdfast.jobs.enqueue(timely, null, { unique: 'once', delay: '1h' })
  expect(again.isNew).toBe(true)
  expect(await holdfast.jobs.retry(queued.id)).toBe(true)
  await untilState(holdfast, queued.id, 'done')
})

test('SQL, enqueueMany, workflows and replaced unique jobs accept a deadline', async () => {
  const holdfast = await start('forms')
  const timely = defineJob('timely', { run: (_: { n: number } | null) => 1 })
  const at = new Date(Date.now() + 3_600_000)
  const [fromSql] = await sql<{ id: string }>(
    fresh.url,
    `select holdfast.enqueue('default', 'timely', 'null', start_by => $1, namespace => 'forms') as id`,
    [at],
  )
  const many = await holdfast.jobs.enqueueMany(timely, [{ n: 1 }, { n: 2 }], { startBy: at })
  const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
    const first = workflow.add(timely, null, { startBy: at })
    workflow.add(timely, null, { after: [first], startBy: at })
  })
  const unique = { key: 'k', existing: 'replace' } as const
  const kept = await holdfast.jobs.enqueue(timely, null, { unique })
  const replaced = await holdfast.jobs.enqueue(timely, null, { unique, startBy: at })
  expect(replaced.id).toBe(kept.id)
  for (const id of [Number(fromSql!.id), ...many.map((one) => one.id), ...jobs.map((one) => one.id), kept.id]) {
    expect(await holdfast.jobs.find(id), String(id)).toMatchObject({ startBy: at })
    expect(await deadlines(id)).toBe(1)
  }
  await caught(UsageError, holdfast.jobs.enqueue(timely, null, { delay: '1h', startBy: '1h' }))
  await caught(UsageError, holdfast.jobs.enqueue(timely, null, { startBy: 'soon' as '1s' }))
})

test('late jobs that a transaction has locked do not delay the start of other jobs', async () => {
  const holdfast = await start('locked')
  const late = defineJob('late', { queue: 'locked', run: () => {} })
  const other = defineJob('other', { queue: 'free', run: () => performance.now() })
  work(holdfast, [other])
  await holdfast.jobs.enqueueMany(late, new Array(100).fill(null), { startBy: 500 })
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  await client.query(
    `select pg_advisory_xact_lock(holdfast.lock_class('job claims'), queue::bit(32)::integer)
     from holdfast.job where kind = 'late' limit 1`,
  )
  await until('the jobs are late', async () => {
    return (await sql(fresh.url, 'select from holdfast.job_deadline where start_by < clock_timestamp()')).length === 100
  })
  const began = performance.now()
  const refs = await holdfast.jobs.enqueueMany(other, new Array(10).fill(null), { delay: 300 })
  const startedAt = await Promise.all(refs.map((ref) => holdfast.jobs.result(ref)))
  expect(Math.max(...startedAt) - began).toBeLessThan(2_500)
  await client.query('rollback')
  await until('the late jobs have expired', async () => {
    return (await sql(fresh.url, "select from holdfast.job_stopped where kind = 'late'")).length === 100
  })
})
