import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { stays, until, within } from '../setup/facts.js'
import { expiryMs, openDatabase, openInstance, openProxy } from './fixture.js'
import { startWorker } from './jobs-fixture.js'

// What a worker meets: replies that are lost, a database that is gone for a while, handlers that misbehave.

/** An instance that works by way of a proxy, and one beside it that does not. */
async function stage(expiry = expiryMs) {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const beside = await openInstance(url)
  const holdfast = await openInstance(proxy.through(url), { expiry })
  return { url, witness, proxy, beside, holdfast }
}

const untilEnded = (holdfast: Holdfast, ids: readonly number[]) =>
  until(
    'all have ended',
    async () =>
      (await Promise.all(ids.map((id) => holdfast.jobs.find(id)))).every((status) => status?.endedAt !== undefined),
    30_000,
  )

test('the reply to a claim is lost: its jobs run all the same, once', { timeout: 60_000 }, async () => {
  const { proxy, beside, holdfast, witness } = await stage()
  const ran: number[] = []
  const job = defineJob('job', { run: (_: null, { id }) => void ran.push(id) })
  const refs = await beside.jobs.enqueueMany(job, [null, null, null])
  const ids = refs.map(({ id }) => id)
  const swallowed = proxy.swallowReplyTo('job_claim')
  holdfast.jobs.work([job])
  await within(10_000, 'The claim', swallowed)
  await until('it was granted', async () => (await witness.query('select from holdfast.claim')).length === 1)
  await untilEnded(beside, ids)
  expect(ran.sort()).toEqual([...ids].sort())
  await until('nothing is left of it', async () => (await witness.query('select from holdfast.claim')).length === 0)
})

test('the reply to a completion is lost: it is recorded once', { timeout: 60_000 }, async () => {
  const { proxy, beside, holdfast, witness } = await stage()
  let runs = 0
  const job = defineJob('job', { run: () => ++runs })
  const swallowed = proxy.swallowReplyTo('job_done')
  const worker = holdfast.jobs.work([job])
  const { id } = await beside.jobs.enqueue(job, null)
  await within(10_000, 'The completion', swallowed)
  await until('it is recorded', async () => (await beside.jobs.find(id))?.state === 'done')
  // It is recorded again, and found to be; only then nothing is left of the claim's jobs for this worker.
  await within(20_000, 'Closing', worker.close())
  expect(runs).toBe(1)
  expect(worker.refusedEnds).toBe(0)
  const rows = await witness.query('select state from holdfast.job_history where id = $1', [id])
  expect(rows).toEqual([{ state: 'done' }])
})

test('the reply to that a worker is awake is lost: it goes on', { timeout: 60_000 }, async () => {
  const { proxy, beside, holdfast, witness } = await stage()
  const job = defineJob('job', { run: () => pause(1) })
  holdfast.jobs.work([job])
  await until('it sleeps', async () => (await witness.query('select from holdfast.worker where sleeping')).length === 1)
  const swallowed = proxy.swallowReplyTo('set sleeping')
  // Enough to keep it busy until it says so.
  await beside.jobs.enqueueMany(job, Array(2_000).fill(null))
  await within(10_000, 'Awakening', swallowed)
  // Until the reply has been given up: a failure that nobody handles would end the process.
  const runsAnother = async () => {
    const { id } = await beside.jobs.enqueue(job, null)
    await untilEnded(beside, [id])
    return true
  }
  await stays('it works', runsAnother, expiryMs + 1_000)
})

test('the reply to the commit of tx is lost: its effect and its end happened once', { timeout: 60_000 }, async () => {
  // A life that outlasts the silence, also on a loaded machine: or the job would rightly run again.
  const { proxy, beside, holdfast, witness } = await stage(20_000)
  await witness.query('create table effect (id bigint not null)')
  let runs = 0
  const swallowed: Promise<void>[] = []
  const job = defineJob('job', {
    retry: { backoff: 10 },
    run: async (_: null, { id, tx }) => {
      await tx.query('insert into effect values ($1)', [id])
      // What comes next on the connection is the record of the end, and the commit.
      if (++runs === 1) swallowed.push(proxy.swallowReplyTo('commit\0'))
    },
  })
  holdfast.jobs.work([job])
  const { id } = await beside.jobs.enqueue(job, null)
  await untilEnded(beside, [id])
  await within(5_000, 'The commit', swallowed[0]!)
  // The attempt is over when its late record has been refused.
  await holdfast.close()
  expect(runs).toBe(1)
  expect(await witness.query('select from effect')).toHaveLength(1)
  const rows = await witness.query('select state, failed from holdfast.job_history where id = $1', [id])
  expect(rows).toEqual([{ state: 'done', failed: 0 }])
})

test('a claim that cannot be forgotten with the last of its jobs is forgotten later', async () => {
  const { beside, holdfast, witness } = await stage()
  await witness.query(`
      create function public.refuse() returns trigger language plpgsql as
        $$ begin raise exception using errcode = '57P01', message = 'not now'; end $$;
      create trigger refuse before delete on holdfast.claim for each statement execute function public.refuse()`)
  const job = defineJob('job', { run: (_: null, { tx }) => tx.query('select').then(() => {}) })
  holdfast.jobs.work([job])
  const { id } = await beside.jobs.enqueue(job, null)
  await untilEnded(beside, [id])
  expect(await witness.query('select from holdfast.claim')).toHaveLength(1)
  await witness.query('drop trigger refuse on holdfast.claim')
  await until('nothing is left of it', async () => (await witness.query('select from holdfast.claim')).length === 0)
})

test('a job that is taken away from a worker stops there, runs again, and leaves no claim', async () => {
  const { beside, holdfast, witness } = await stage()
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
  const { id } = await beside.jobs.enqueue(job, null)
  await until('it runs', () => fences.length === 1)
  // It must not come back to its worker before that has noticed.
  await beside.jobs.pause('default')
  // As a take-over does it.
  await witness.query(
    `with ended as (
       select holdfast.job_end(json_build_array(json_build_object('id', $1::bigint, 'fence', $2::bigint, 'state', 'returned')), '{}')
     )
     delete from holdfast.claim using ended where fence = $2`,
    [id, fences[0]],
  )
  await until('it has stopped', () => isStopped)
  await beside.jobs.resume('default')
  expect(await beside.jobs.result(id, { wait: '20s' })).toBe('again')
  expect(fences[1]).toBeGreaterThan(fences[0]!)
  await until('nothing is left of it', async () => (await witness.query('select from holdfast.claim')).length === 0)
})

test('a job that is lost runs again, although another of its claim has ended', async () => {
  const { beside, holdfast, witness } = await stage()
  const begun: string[] = []
  const job = defineJob('job', {
    run: async (what: 'throws' | 'returns', { signal }) => {
      begun.push(what)
      if (begun.length > 10) return
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      if (what === 'throws') throw signal.reason
    },
  })
  const refs = await beside.jobs.enqueueMany(job, [...Array(9).fill('throws'), 'returns'])
  const last = refs[9]!.id
  holdfast.jobs.work([job], { concurrency: 10 })
  await until('all run', () => begun.length === 10)
  const claimed = await witness.query('select from holdfast.claim where $1 = any(ids) and cardinality(ids) > 1', [last])
  expect(claimed, 'it was claimed with others').toHaveLength(1)
  // Nobody takes over until it has ended.
  await witness.query("select pg_advisory_lock(holdfast.lock_class('job maintenance'), 0)")
  await witness.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast ${holdfast.id}'`,
  )
  await untilEnded(beside, [last])
  await witness.query("select pg_advisory_unlock(holdfast.lock_class('job maintenance'), 0)")
  await untilEnded(
    beside,
    refs.map(({ id }) => id),
  )
  await until('nothing is left of it', async () => (await witness.query('select from holdfast.claim')).length === 0)
})

test('the database is gone in mid-run, for longer than the expiry: everything ends, once', {
  timeout: 60_000,
}, async () => {
  const { proxy, beside, holdfast, witness } = await stage()
  let running = 0
  let most = 0
  const job = defineJob('job', {
    run: async (ms: number) => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setTimeout(resolve, ms))
      running--
      return ms
    },
  })
  const times = Array.from({ length: 60 }, (_, at) => (at % 6) * 400)
  const refs = await beside.jobs.enqueueMany(job, times)
  const worker = holdfast.jobs.work([job], { concurrency: 10 })
  await until('it is in mid-run', () => running === 10)
  proxy.cut()
  await stays('no more run than may, though it is gone for long', () => most === 10, expiryMs * 1.5)
  proxy.restore()
  for (const [at, { id }] of refs.entries()) expect(await beside.jobs.result(id)).toBe(times[at])
  expect(most).toBe(10)
  await within(20_000, 'Closing', worker.close())
  const rows = await witness.query<{ count: number }>('select count(*)::int from holdfast.job_history')
  expect(rows[0]!.count).toBe(60)
  expect(await witness.query('select from holdfast.claim')).toEqual([])
})

test('a handler blocks its process beyond the expiry: another takes over, and the late answer is refused', {
  timeout: 60_000,
}, async () => {
  const { url } = await openDatabase()
  const holdfast = await openInstance(url)
  const block = defineJob('block', { run: (_: number) => 'elsewhere' })
  const mild = defineJob('mild', { run: () => 'elsewhere' })
  const worker = await startWorker(url, { queues: ['default'] })
  const { id } = await holdfast.jobs.enqueue(block, expiryMs * 2)
  await until('it has begun', async () => (await holdfast.jobs.find(id))?.state === 'running')
  const other = holdfast.jobs.work([block])
  expect(await holdfast.jobs.result(id, { wait: '20s' })).toBe('elsewhere')
  await other.close()
  // It comes back to work, as somebody else.
  const next = await holdfast.jobs.enqueue(mild, null)
  expect(await holdfast.jobs.result(next.id, { wait: '20s' })).toBe('mild')
  await worker.close()
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'done', result: 'elsewhere', crashes: 1, failed: 0 })
})

test('a handler that blocked its process beyond the expiry sees it in its signal at once', async () => {
  const { holdfast } = await stage()
  let seen: boolean | undefined
  const job = defineJob('job', {
    run(_: null, run) {
      if (seen !== undefined) return
      const from = performance.now()
      while (performance.now() - from < expiryMs) Math.sqrt(2)
      seen = run.signal.aborted
    },
  })
  await holdfast.jobs.enqueue(job, null)
  holdfast.jobs.work([job])
  await until('it has looked', () => seen !== undefined)
  expect(seen).toBe(true)
})

test('a handler that never returns loses its place and its job; what it says later changes nothing', {
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
  // Without a timeout it goes on until its worker closes, and is given back then.
  await worker.close()
  const again = holdfast.jobs.work([endless()])
  const { id } = await holdfast.jobs.enqueue(timed, null)
  await until('it runs', () => late.length === 2)
  await again.close({ within: 50 })
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready', failed: 0, crashes: 0 })
  for (const say of late) say()
  const third = holdfast.jobs.work([quick])
  await holdfast.jobs.result((await holdfast.jobs.enqueue(quick, null)).id)
  await third.close()
  expect(await holdfast.jobs.find(stuck.id)).toMatchObject({ state: 'buried' })
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready' })
  expect(await witness.query('select from holdfast.claim')).toEqual([])
})

test('an end that is asked for twice happens once', async () => {
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
  // It is known as recorded; an end by another claim is refused.
  expect((await again(ended!.fence))[0]!.recorded).toEqual([String(id)])
  expect((await again(String(Number(ended!.fence) + 1)))[0]!.recorded).toEqual([])
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'done', result: 'once' })
  await worker.close()
})
