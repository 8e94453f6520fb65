import { expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { sql, sqlSession, until, within } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'
import { gate, rowsOf, untilState, work } from './fixture.js'

test('a claim that fails in the database claims nothing, and its jobs run later', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: number[] = []
  const job = defineJob('job', { run: (n: number) => void ran.push(n) })
  await sql(
    url,
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no' using errcode = '53200'; end $$;
     create trigger refuse before insert on holdfast.claim for each row execute function refuse()`,
  )
  await holdfast.jobs.enqueueMany(job, [1, 2])
  const worker = work(holdfast, [job])
  await worker.ready()
  const client = await sqlSession(url)
  const failures = async () => {
    const { rows } = await client.query(
      'select sum(xact_rollback)::int as count from pg_stat_database where datname = current_database()',
    )
    return rows[0].count as number
  }
  const before = await failures()
  await until('claims have failed', async () => (await failures()) > before)
  await sql(url, 'drop trigger refuse on holdfast.claim')
  await until('both jobs have run', () => ran.length === 2)
  await within(5_000, 'Closing the worker', worker.close())
  expect(await rowsOf(url)).toEqual({ job: 0, waiting: 0, claim: 0, worker: 0, history: 2 })
})

test('no job is claimed during the grace period after a restart', async () => {
  const url = await databaseUrl()
  const [holdfast, earlier] = [await open({ url }), await open({ url })]
  const setGeneration = (by: number) =>
    sql(
      url,
      `update holdfast.instance set generation = generation + ${by}, expiry_ms = 86400000 where id = '${earlier.id}'`,
    )
  await setGeneration(-1)
  let runs = 0
  const job = defineJob('job', { run: () => void runs++ })
  await holdfast.jobs.enqueue(job, undefined)
  const failures: unknown[] = []
  holdfast.on('worker.failed', ({ error }) => failures.push(error))
  work(holdfast, [job])
  await until('claims have been refused', () => failures.length >= 2)
  expect(failures[0]).toMatchObject({ message: expect.stringContaining('until the grace period has ended') })
  expect(runs).toBe(0)
  await setGeneration(1)
  await until('the job has run', () => runs === 1)
})

test('a cancelled job of a dead worker ends as cancelled', async () => {
  const url = await databaseUrl()
  const [holdfast, other] = [await open({ url }), await open({ url })]
  const begun = gate()
  let runs = 0
  const job = defineJob<unknown>('job', {
    run: async () => {
      runs++
      begun.open()
      await new Promise(() => {})
    },
  })
  const worker = holdfast.jobs.work([job])
  const { id } = await other.jobs.enqueue(job, null)
  await begun.opened
  expect(await other.jobs.cancel(id, 'not wanted')).toBe(true)
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, holdfast)])
  const closing = worker.close({ within: 10 })
  work(other, [job])
  await untilState(other, id, 'cancelled')
  expect(runs).toBe(1)
  await closing
})

test('find and workflow show that a job runs, also for jobs that wait in its workflow, lane or queue', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const { jobs } = holdfast
  const opening = gate()
  onTestFinished(opening.open)
  const job = defineJob<unknown>('job', { run: () => opening.opened })
  const worker = work(holdfast, [job], { concurrency: 2 })
  const workflow = await jobs.enqueueWorkflow((flow) => {
    flow.add(job, 2, { after: [flow.add(job, 1)] })
  })
  const [first, second] = workflow.jobs.map(({ id }) => id)
  const [placed, inLane] = await jobs.enqueueMany(job, [1, 2], { lane: 'a' })
  await until('two jobs run', () => worker.running === 2)
  const { id: ready } = await jobs.enqueue(job, 3)
  expect((await jobs.workflow(first!))!.jobs).toMatchObject([
    { state: 'running', attempts: 1, claimedAt: expect.any(Date) },
    { state: 'waiting', attempts: 0, claimedAt: undefined },
  ])
  const waitsFor = async (id: number) => (await jobs.find(id))!.waitsFor
  expect(await waitsFor(second!)).toMatchObject({ reason: 'jobs', jobs: [{ id: first, state: 'running' }] })
  const running = [{ id: placed!.id, instance: holdfast.id }]
  expect(await waitsFor(inLane!.id)).toMatchObject({ reason: 'lane', running })
  expect(await waitsFor(ready)).toMatchObject({ reason: 'turn', ahead: 0 })
})
