import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { stays, until, within } from '../setup/facts.js'
import { expiryMs, openDatabase, openInstance, openProxy } from './fixture.js'
import { startWorker } from './jobs-fixture.js'

// Workers under faults: lost responses, a database that is down for a while, and misbehaving handlers.

/** Opens an instance that works through a proxy, and one with a direct connection. */
async function openFixture(expiry = expiryMs) {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const direct = await openInstance(url)
  const holdfast = await openInstance(proxy.through(url), { expiry })
  return { url, witness, proxy, direct, holdfast }
}

const untilEnded = (holdfast: Holdfast, ids: readonly number[]) =>
  until(
    'all jobs have ended',
    async () =>
      (await Promise.all(ids.map((id) => holdfast.jobs.find(id)))).every((status) => status?.endedAt !== undefined),
    30_000,
  )

test('a job runs once although the response to its claim is lost', { timeout: 60_000 }, async () => {
  const { proxy, direct, holdfast, witness } = await openFixture()
  const ran: number[] = []
  const job = defineJob('job', { run: (_: null, { id }) => void ran.push(id) })
  const refs = await direct.jobs.enqueueMany(job, [null, null, null])
  const ids = refs.map(({ id }) => id)
  const swallowed = proxy.swallowReplyTo('job_claim')
  holdfast.jobs.work([job])
  await within(10_000, 'The claim', swallowed)
  await until('the claim was recorded', async () => (await witness.query('select from holdfast.claim')).length === 1)
  await untilEnded(direct, ids)
  expect(ran.sort()).toEqual([...ids].sort())
  await until('no claim is left', async () => (await witness.query('select from holdfast.claim')).length === 0)
})

test('a job is completed once although the response to the completion is lost', { timeout: 60_000 }, async () => {
  const { proxy, direct, holdfast, witness } = await openFixture()
  let runs = 0
  const job = defineJob('job', { run: () => ++runs })
  const swallowed = proxy.swallowReplyTo('job_done')
  const worker = holdfast.jobs.work([job])
  const { id } = await direct.jobs.enqueue(job, null)
  await within(10_000, 'The completion', swallowed)
  await until('the completion is recorded', async () => (await direct.jobs.find(id))?.state === 'done')
  // The worker sends the completion again and learns that it was recorded. Until then, the worker counts the job as unfinished.
  await within(20_000, 'Closing', worker.close())
  expect(runs).toBe(1)
  expect(worker.refusedEnds).toBe(0)
  const rows = await witness.query('select state from holdfast.job_history where id = $1', [id])
  expect(rows).toEqual([{ state: 'done' }])
})

test('a worker continues although the response to its report that it is awake is lost', {
  timeout: 60_000,
}, async () => {
  const { proxy, direct, holdfast, witness } = await openFixture()
  const job = defineJob('job', { run: () => pause(1) })
  holdfast.jobs.work([job])
  await until(
    'the worker sleeps',
    async () => (await witness.query('select from holdfast.worker where sleeping')).length === 1,
  )
  const swallowed = proxy.swallowReplyTo('set sleeping')
  // Enough jobs to keep the worker busy until it reports that it is awake.
  await direct.jobs.enqueueMany(job, Array(2_000).fill(null))
  await within(10_000, 'The report that the worker is awake', swallowed)
  // Lasts until the statement has timed out. If its error were unhandled, the process would end.
  const runsAnother = async () => {
    const { id } = await direct.jobs.enqueue(job, null)
    await untilEnded(direct, [id])
    return true
  }
  await stays('the worker runs jobs', runsAnother, expiryMs + 1_000)
})

test('a job has its effect and its end once although the response to the commit of tx is lost', {
  timeout: 60_000,
}, async () => {
  // The expiry is longer than the silence, also on a loaded machine. Otherwise the job would run again, as it should.
  const { proxy, direct, holdfast, witness } = await openFixture(20_000)
  await witness.query('create table effect (id bigint not null)')
  let runs = 0
  const swallowed: Promise<void>[] = []
  const job = defineJob('job', {
    retry: { backoff: 10 },
    run: async (_: null, { id, tx }) => {
      await tx.query('insert into effect values ($1)', [id])
      // Next, the worker sends the record of the end and the commit on this connection.
      if (++runs === 1) swallowed.push(proxy.swallowReplyTo('commit\0'))
    },
  })
  holdfast.jobs.work([job])
  const { id } = await direct.jobs.enqueue(job, null)
  await untilEnded(direct, [id])
  await within(5_000, 'The commit', swallowed[0]!)
  // The attempt ends when its late record has been rejected.
  await holdfast.close()
  expect(runs).toBe(1)
  expect(await witness.query('select from effect')).toHaveLength(1)
  const rows = await witness.query('select state, failed from holdfast.job_history where id = $1', [id])
  expect(rows).toEqual([{ state: 'done', failed: 0 }])
})

test('a claim is deleted later if the first try to delete it fails', async () => {
  const { direct, holdfast, witness } = await openFixture()
  await witness.query(`
      create function public.refuse() returns trigger language plpgsql as
        $$ begin raise exception using errcode = '57P01', message = 'not now'; end $$;
      create trigger refuse before delete on holdfast.claim for each statement execute function public.refuse()`)
  const job = defineJob('job', { run: (_: null, { tx }) => tx.query('select').then(() => {}) })
  holdfast.jobs.work([job])
  const { id } = await direct.jobs.enqueue(job, null)
  await untilEnded(direct, [id])
  expect(await witness.query('select from holdfast.claim')).toHaveLength(1)
  await witness.query('drop trigger refuse on holdfast.claim')
  await until('no claim is left', async () => (await witness.query('select from holdfast.claim')).length === 0)
})

test('a job that was taken over stops in its worker, runs again, and leaves no claim', async () => {
  const { direct, holdfast, witness } = await openFixture()
  const fences: number[] = []
  let isStopped = false
  const job = defineJob('job', {
    run: async (_: null, { signal, fence }) => {
      fences.push(fence)
      if (fences.length > 1) return 'again'
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      isStopped = true
      throw signal.reason
    },
  })
  holdfast.jobs.work([job])
  const { id } = await direct.jobs.enqueue(job, null)
  await until('the job runs', () => fences.length === 1)
  // The worker must not claim the job again before it has noticed the takeover.
  await direct.jobs.pause('default')
  // Does what a takeover does.
  await witness.query(
    `with ended as (
       select holdfast.job_end(json_build_array(json_build_object('id', $1::bigint, 'fence', $2::bigint, 'state', 'returned')), '{}')
     )
     delete from holdfast.claim using ended where fence = $2`,
    [id, fences[0]],
  )
  await until('the first attempt has stopped', () => isStopped)
  await direct.jobs.resume('default')
  expect(await direct.jobs.result(id, { wait: '20s' })).toBe('again')
  expect(fences[1]).toBeGreaterThan(fences[0]!)
  await until('no claim is left', async () => (await witness.query('select from holdfast.claim')).length === 0)
})

test('a lost job runs again although another job of the same claim has ended', async () => {
  const { direct, holdfast, witness } = await openFixture()
  const started: string[] = []
  const job = defineJob('job', {
    run: async (what: 'throws' | 'returns', { signal }) => {
      started.push(what)
      if (started.length > 10) return
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      if (what === 'throws') throw signal.reason
    },
  })
  const refs = await direct.jobs.enqueueMany(job, [...Array(9).fill('throws'), 'returns'])
  const last = refs[9]!.id
  holdfast.jobs.work([job], { concurrency: 10 })
  await until('all jobs run', () => started.length === 10)
  const claimed = await witness.query('select from holdfast.claim where $1 = any(ids) and cardinality(ids) > 1', [last])
  expect(claimed, 'the job was claimed together with others').toHaveLength(1)
  // Prevents takeovers until the last job has ended.
  await witness.query("select pg_advisory_lock(holdfast.lock_class('job maintenance'), 0)")
  await witness.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast ${holdfast.id}'`,
  )
  await untilEnded(direct, [last])
  await witness.query("select pg_advisory_unlock(holdfast.lock_class('job maintenance'), 0)")
  await untilEnded(
    direct,
    refs.map(({ id }) => id),
  )
  await until('no claim is left', async () => (await witness.query('select from holdfast.claim')).length === 0)
})

test('jobs end once although the database is down during their runs for longer than the expiry', {
  timeout: 60_000,
}, async () => {
  const { proxy, direct, holdfast, witness } = await openFixture()
  let running = 0
  let maxRunning = 0
  const job = defineJob('job', {
    run: async (ms: number) => {
      maxRunning = Math.max(maxRunning, ++running)
      await new Promise((resolve) => setTimeout(resolve, ms))
      running--
      return ms
    },
  })
  const times = Array.from({ length: 60 }, (_, at) => (at % 6) * 400)
  const refs = await direct.jobs.enqueueMany(job, times)
  const worker = holdfast.jobs.work([job], { concurrency: 10 })
  await until('ten jobs run', () => running === 10)
  proxy.cut()
  await stays('at most ten jobs have run at the same time', () => maxRunning === 10, expiryMs * 1.5)
  proxy.restore()
  for (const [at, { id }] of refs.entries()) expect(await direct.jobs.result(id)).toBe(times[at])
  expect(maxRunning).toBe(10)
  await within(20_000, 'Closing', worker.close())
  const rows = await witness.query<{ count: number }>('select count(*)::int from holdfast.job_history')
  expect(rows[0]!.count).toBe(60)
  expect(await witness.query('select from holdfast.claim')).toEqual([])
})

test('a job of a process that is blocked beyond the expiry runs elsewhere, and the late result is rejected', {
  timeout: 60_000,
}, async () => {
  const { url } = await openDatabase()
  const holdfast = await openInstance(url)
  const block = defineJob('block', { run: (_: number) => 'elsewhere' })
  const mild = defineJob('mild', { run: () => 'elsewhere' })
  const worker = await startWorker(url, { queues: ['default'] })
  const { id } = await holdfast.jobs.enqueue(block, expiryMs * 2)
  await until('the job runs', async () => (await holdfast.jobs.find(id))?.state === 'running')
  const other = holdfast.jobs.work([block])
  expect(await holdfast.jobs.result(id, { wait: '20s' })).toBe('elsewhere')
  await other.close()
  // The blocked process works again, with a new session.
  const next = await holdfast.jobs.enqueue(mild, null)
  expect(await holdfast.jobs.result(next.id, { wait: '20s' })).toBe('mild')
  await worker.close()
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'done', result: 'elsewhere', crashes: 1, failed: 0 })
})

test('a handler that blocked its process beyond the expiry sees the aborted signal immediately', async () => {
  const { holdfast } = await openFixture()
  let isAborted: boolean | undefined
  const job = defineJob('job', {
    run(_: null, run) {
      if (isAborted !== undefined) return
      const from = performance.now()
      while (performance.now() - from < expiryMs) Math.sqrt(2)
      isAborted = run.signal.aborted
    },
  })
  await holdfast.jobs.enqueue(job, null)
  holdfast.jobs.work([job])
  await until('the handler has read its signal', () => isAborted !== undefined)
  expect(isAborted).toBe(true)
})

test('a handler that never returns loses its slot and its job, and its late result changes nothing', {
  timeout: 60_000,
}, async () => {
  const { url, witness } = await openDatabase()
  const holdfast = await openInstance(url)
  const late: (() => void)[] = []
  const endless = (timeout?: number) =>
    defineJob('endless', {
      retry: { attempts: 1 },
      timeout,
      run: (_: null) => new Promise<string>((resolve) => late.push(() => resolve('late'))),
    })
  const timed = endless(50)
  const quick = defineJob('quick', { run: () => 'quick' })
  const worker = holdfast.jobs.work([timed, quick], { concurrency: 1 })
  const stuck = await holdfast.jobs.enqueue(timed, null)
  const behind = await holdfast.jobs.enqueue(quick, null)
  expect(await holdfast.jobs.result(behind.id)).toBe('quick')
  await untilEnded(holdfast, [stuck.id])
  expect(await holdfast.jobs.find(stuck.id)).toMatchObject({ state: 'buried', error: { code: 'JOB_TIMEOUT' } })
  // A job without a timeout runs until its worker closes. Then the worker returns it.
  await worker.close()
  const again = holdfast.jobs.work([endless()])
  const { id } = await holdfast.jobs.enqueue(timed, null)
  await until('the job runs', () => late.length === 2)
  await again.close({ within: 50 })
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready', failed: 0, crashes: 0 })
  for (const resolve of late) resolve()
  const third = holdfast.jobs.work([quick])
  await holdfast.jobs.result((await holdfast.jobs.enqueue(quick, null)).id)
  await third.close()
  expect(await holdfast.jobs.find(stuck.id)).toMatchObject({ state: 'buried' })
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready' })
  expect(await witness.query('select from holdfast.claim')).toEqual([])
})

test('a completion that is sent twice is recorded once', async () => {
  const { url, witness } = await openDatabase()
  const holdfast = await openInstance(url)
  const job = defineJob('job', { run: () => 'once' })
  const worker = holdfast.jobs.work([job])
  const { id } = await holdfast.jobs.enqueue(job, null)
  await holdfast.jobs.result(id)
  const [ended] = await witness.query<{ fence: string }>('select fence from holdfast.job_history where id = $1', [id])
  const again = (fence: string) =>
    witness.query<{ recorded: string[] | null }>(
      "select recorded from holdfast.job_done($1, $2, '[[\"twice\"]]', '{}')",
      [[id], [fence]],
    )
  // The first call reports the recorded completion. The second call has another fence and is rejected.
  expect((await again(ended!.fence))[0]!.recorded).toEqual([String(id)])
  expect((await again(String(Number(ended!.fence) + 1)))[0]!.recorded).toEqual([])
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'done', result: 'once' })
  await worker.close()
})
