import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { defineJob, UsageError } from '../../src/index.js'
import { startProgram } from '../cli/program.js'
import { caught, sqlSession, stays, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { gate } from './fixture.js'

test('close takes a duration, in words as well', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const endless = defineJob('endless', {
    run: (_, { signal }) =>
      new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const worker = jobs.work([endless])
  const { id } = await jobs.enqueue(endless, null)
  await until('it runs', () => worker.running === 1)
  const refused = async (within: string) => (await caught(UsageError, () => worker.close({ within }))).message
  const expected = 'Expected within to be a duration of at least 0ms and at most 24d'
  expect(await refused('soon')).toBe(`${expected}, got "soon" (string)`)
  // No timer waits for longer.
  expect(await refused('30d')).toBe(`${expected}, got "30d" (string)`)
  await worker.close({ within: '10ms' })
  expect(await jobs.find(id)).toMatchObject({ state: 'ready', failed: 0 })
})

test('what a handler logs just before its end, while the worker closes, keeps nothing from being recorded', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const opening = gate()
  const job = defineJob('job', {
    run: async (isEndless: boolean, { log, signal }) => {
      if (isEndless) await new Promise((resolve) => signal.addEventListener('abort', resolve))
      else await opening.opened
      log('the last word')
      signal.throwIfAborted()
    },
  })
  const worker = jobs.work([job])
  const [short, endless] = await jobs.enqueueMany(job, [false, true])
  await until('both run', () => worker.running === 2)
  const closed = worker.close({ within: 50 })
  opening.open()
  await closed
  const log = ['the last word']
  expect(await jobs.find(short!.id)).toMatchObject({ state: 'done', log })
  expect(await jobs.find(endless!.id)).toMatchObject({ state: 'ready', crashes: 0, log })
})

test('what a look back still finds while the worker closes is given back', async () => {
  const url = await databaseUrl()
  const { jobs } = await open({ url })
  const holder = await sqlSession(url)
  // From now on looks back wait for whoever has the lock.
  await holder.query(`
    create schema at_once;
    alter function holdfast.job_claim set schema at_once;
    create function holdfast.job_claim(
      session integer, token bigint, queues bigint[], priorities integer[], cursors bigint[], kinds text[], most integer,
      announces boolean, looks_back boolean, out state text, out fence bigint, out jobs text, out new_cursors text, out oldest text,
      out newest text, out last bigint
    )
    language plpgsql as $$
    begin
      if looks_back then
        perform pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7);
      end if;
      select * into state, fence, jobs, new_cursors, oldest, newest, last
      from at_once.job_claim(session, token, queues, priorities, cursors, kinds, most, announces, looks_back);
    end
    $$`)
  const short = defineJob('short', { run: () => new Promise<void>((resolve) => setTimeout(resolve, 2)) })
  await jobs.enqueueMany(short, new Array(10_000).fill(null))
  const worker = jobs.work([short], { concurrency: 2 })
  const held = async (ready: string) => (await holder.query(`select from holdfast.job where ${ready}`)).rowCount
  await until('some have run', async () => (await held('true'))! < 9_900)
  await holder.query('select pg_advisory_lock(7)')
  const waits = "select from pg_locks where locktype = 'advisory' and objid = 7 and not granted"
  await until('a look waits', async () => (await holder.query(waits)).rowCount === 1)
  const closed = worker.close({ within: 0 })
  await until('the rest has been given back', async () => (await held('session is not null')) === 0)
  await holder.query('select pg_advisory_unlock(7)')
  await closed
  await stays('nothing is claimed for nobody', async () => (await held('session is not null')) === 0, 300)
})

test('a worker that was closed is forgotten', async () => {
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
  await until('nothing leads to it', () => {
    collect()
    return closed.deref() === undefined
  })
})

test('a process whose worker was closed ends', async () => {
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
  expect(await within(10_000, 'Ending', running.ended)).toMatchObject({ status: 0, stderr: '' })
})
