import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { defineJob, UsageError } from '../../src/index.js'
import { startProgram } from '../cli/program.js'
import { caught, sqlSession, stays, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { gate, rowsOf } from './fixture.js'

test('worker.close accepts a duration as text, and refuses text that is no duration or too long', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const endless = defineJob('endless', {
    run: (_, { signal }) =>
      new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const worker = jobs.work([endless])
  const { id } = await jobs.enqueue(endless, null)
  await until('the job runs', () => worker.running === 1)
  const refused = async (within: string) =>
    (await caught(UsageError, () => worker.close({ within: within as never }))).message
  const expected = 'Expected within to be a duration of at least 0ms and at most 24d'
  expect(await refused('soon')).toBe(`${expected}, got "soon" (string)`)
  // 24 days is the longest time that a timer can wait.
  expect(await refused('30d')).toBe(`${expected}, got "30d" (string)`)
  await worker.close({ within: '10ms' })
  expect(await jobs.find(id)).toMatchObject({ state: 'ready', failed: 0 })
})

test('a handler that logs just before its end, while the worker closes, is recorded together with its log', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const opening = gate()
  const job = defineJob('job', {
    run: async (isEndless: boolean, { log, signal }) => {
      if (isEndless) await new Promise((resolve) => signal.addEventListener('abort', resolve))
      else await opening.opened
      log('last line')
      signal.throwIfAborted()
    },
  })
  const worker = jobs.work([job])
  const [short, endless] = await jobs.enqueueMany(job, [false, true])
  await until('both jobs run', () => worker.running === 2)
  const closed = worker.close({ within: 50 })
  opening.open()
  await closed
  const log = [{ text: 'last line', attempt: 1 }]
  expect(await jobs.find(short!.id)).toMatchObject({ state: 'done', log })
  expect(await jobs.find(endless!.id)).toMatchObject({ state: 'ready', crashes: 0, log })
})

test('jobs that a claim returns while the worker closes go back to the queue', async () => {
  const url = await databaseUrl()
  const { jobs } = await open({ url })
  const holder = await sqlSession(url)
  // A claim waits while the session holds lock 7. Each claim that has waited is recorded.
  await holder.query(`
    create schema held;
    create table held.claim (fence bigint);
    alter function holdfast.job_claim set schema held;
    create function holdfast.job_claim(
      session integer, token bigint, queues bigint[], kinds text[], max_count integer, announces boolean, is_thorough boolean
    )
    returns table (state text, fence bigint, jobs text, is_drained boolean, large_id bigint, large_input json)
    language plpgsql as $$
    declare
      waits boolean := not pg_try_advisory_xact_lock_shared(7);
    begin
      if waits then
        perform pg_advisory_xact_lock_shared(7);
      end if;
      select * into state, fence, jobs, is_drained
      from held.job_claim(session, token, queues, kinds, max_count, announces, is_thorough);
      return next;
      if waits then
        insert into held.claim values (fence);
      end if;
    end
    $$`)
  const short = defineJob('short', { run: () => new Promise<void>((resolve) => setTimeout(resolve, 2)) })
  await jobs.enqueueMany(short, new Array(10_000).fill(null))
  const worker = jobs.work([short], { concurrency: 2 })
  await until('more than 100 jobs have run', async () => (await rowsOf(url)).history! > 100)
  await holder.query('select pg_advisory_lock(7)')
  const waits = "select from pg_locks where locktype = 'advisory' and objid = 7 and not granted"
  await until('a claim waits', async () => (await holder.query(waits)).rowCount === 1)
  const closed = worker.close({ within: 0 })
  await holder.query('select pg_advisory_unlock(7)')
  await closed
  const running = async () => (await holder.query('select from holdfast.job_running')).rowCount
  await stays('no job is claimed', async () => (await running()) === 0, 300)
  expect((await holder.query('select from held.claim where fence is not null')).rowCount).toBe(1)
  const { job, history, claim } = await rowsOf(url)
  expect([job! + history!, claim]).toEqual([10_000, 0])
})

test('a closed worker can be garbage-collected', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const job = defineJob('job', { run: () => {} })
  const closed = await (async () => {
    const worker = jobs.work([job])
    await worker.ready()
    await worker.close()
    return new WeakRef(worker)
  })()
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  await until('the worker is garbage-collected', () => {
    collect()
    return closed.deref() === undefined
  })
})

test('a process ends after its worker and its instance have closed', async () => {
  const url = await databaseUrl()
  const home = fileURLToPath(new URL('../..', import.meta.url))
  const running = startProgram(process.execPath, ['--input-type=module', '-'], {}, home)
  running.process.stdin!.end(`
    import { defineJob, Holdfast } from 'holdfast'
    const holdfast = await Holdfast.open({ url: '${url}', expiry: '1m' })
    const job = defineJob('job', { run: () => {} })
    const worker = holdfast.jobs.work([job])
    const { id } = await holdfast.jobs.enqueue(job, 1)
    await holdfast.jobs.result(id)
    await worker.close()
    await holdfast.close()
    console.log('closed')
  `)
  await running.says(/closed/)
  expect(await within(10_000, 'The end of the process', running.ended)).toMatchObject({ status: 0, stderr: '' })
})
