// Tests lists of jobs and queues, changes of many jobs, updates, and watching a job.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { defineJob, type JobStatus, UsageError } from '../../src/index.js'
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
const mail = defineJob('mail', { queue: 'post', run: ({ to }: { to: string }) => to })
const report = defineJob('report', { run: (_: null) => 1 })

test('list returns the jobs of the namespace page by page, and queues their counts and rates', async () => {
  const [holdfast, other] = [await start('list'), await start('list elsewhere')]
  await other.jobs.enqueue(mail, { to: 'nobody' })
  const jobs = await holdfast.jobs.enqueueMany(
    mail,
    ['ada', 'bob', 'cy'].map((to) => ({ to })),
  )
  const waiting = await holdfast.jobs.enqueue(report, null, { delay: '1h' })
  const ids = async (options: Parameters<typeof holdfast.jobs.list>[0]) =>
    (await holdfast.jobs.list(options)).jobs.map(({ id }) => id)
  expect(await ids({})).toEqual([...jobs.map(({ id }) => id), waiting.id])
  expect(await ids({ queue: 'post', search: 'input.to:bob' })).toEqual([jobs[1]!.id])
  expect(await ids({ state: ['waiting', 'done'] })).toEqual([waiting.id])
  expect(await ids({ kind: 'report', state: 'ready' })).toEqual([])
  const first = await holdfast.jobs.list({ kind: 'mail', limit: 2 })
  expect(first.jobs).toHaveLength(2)
  expect(await ids({ kind: 'mail', limit: 2, after: first.next! })).toEqual([jobs[2]!.id])
  expect(await holdfast.jobs.queues()).toMatchObject([
    { name: 'default', waiting: 1, ready: 0 },
    { name: 'post', ready: 3, workers: 0, rates: { enqueued: expect.any(Number) } },
  ])
  await caught(UsageError, holdfast.jobs.list({ queue: 'post', search: 'queue:default' }))
  await caught(UsageError, holdfast.jobs.list({ state: 'failed' as 'buried' }))
})

test('cancelMany and retryMany change the jobs that a filter selects, and refuse a filter that selects everything', async () => {
  const holdfast = await start('many')
  const jobs = await holdfast.jobs.enqueueMany(
    mail,
    Array.from({ length: 130 }, (_, n) => ({ to: n < 120 ? 'ada' : 'bob' })),
  )
  const ada = { kind: 'mail', search: 'input.to:ada' }
  expect(await holdfast.jobs.cancelMany(ada, { reason: 'withdrawn' })).toBe(120)
  expect(await holdfast.jobs.find(jobs[0]!.id)).toMatchObject({ state: 'cancelled', error: { message: 'withdrawn' } })
  expect((await holdfast.jobs.find(jobs[125]!.id))!.state).toBe('ready')
  expect(await holdfast.jobs.retryMany(ada)).toBe(0)
  expect(await holdfast.jobs.retryMany({ ...ada, state: 'cancelled' })).toBe(120)
  expect((await holdfast.jobs.find(jobs[0]!.id))!.state).toBe('ready')
  for (const filter of [{}, { kind: undefined }, { search: ' ' }]) {
    await caught(UsageError, holdfast.jobs.cancelMany(filter))
  }
  await caught(UsageError, holdfast.jobs.retryMany({ state: 'done' }))
})

test('update changes a ready or waiting job, and a worker runs the new one', async () => {
  const holdfast = await start('update')
  const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { meta: { a: 1 } })
  const first = await holdfast.jobs.enqueue(mail, { to: 'first' })
  expect(await holdfast.jobs.update(id, { priority: -1, meta: {} })).toBe(true)
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready', priority: -1, meta: {}, input: { to: 'ada' } })
  expect(await holdfast.jobs.update(id, { delay: '1h', startBy: '2h' })).toBe(true)
  const early = await caught(UsageError, holdfast.jobs.update(id, { delay: '1h', startBy: '1s' }))
  expect(early.message).toBe('Expected startBy to be later than the earliest start, got an earlier deadline')
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'waiting', startBy: expect.any(Date) })
  expect(await holdfast.jobs.update(id, { definition: mail, input: { to: 'bob' }, delay: 0 })).toBe(true)
  work(holdfast, [mail])
  expect(await holdfast.jobs.result(id)).toBe('bob')
  expect(await holdfast.jobs.result(first)).toBe('first')
  expect(await holdfast.jobs.update(id, { priority: 1 })).toBe(false)
  expect(await holdfast.jobs.update(id + 1_000, { priority: 1 })).toBe(false)
  expect(await sql(fresh.url, 'select * from holdfast.job_lost()')).toEqual([])
})

test('update does not change a running job, and waits for a claim that is in progress', async () => {
  const holdfast = await start('race')
  const [started, finish] = [gate(), gate()]
  const held = defineJob('held', {
    run: async (input: { n: number }) => {
      started.open()
      await finish.opened
      return input.n
    },
  })
  const { id } = await holdfast.jobs.enqueue(held, { n: 1 })
  // Another session holds the lock of the queue's claims, as a claim would.
  const session = await sqlSession(fresh.url)
  const [{ key }] = (await sql<{ key: string }>(fresh.url, 'select queue as key from holdfast.job where id = $1', [
    id,
  ])) as [{ key: string }]
  await session.query('begin')
  await session.query("select pg_advisory_xact_lock(holdfast.lock_class('job claims'), $1::bigint::bit(32)::integer)", [
    key,
  ])
  const updated = holdfast.jobs.update(id, { definition: held, input: { n: 2 } })
  await until('the update waits', async () => {
    const waiting = "select from pg_stat_activity where wait_event = 'advisory' and query like '%job_update%'"
    return (await sql(fresh.url, waiting)).length === 1
  })
  work(holdfast, [held])
  await session.query('commit')
  await started.opened
  finish.open()
  expect(await holdfast.jobs.result(id)).toBe((await updated) ? 2 : 1)

  const running = await holdfast.jobs.enqueue(held, { n: 3 })
  await untilState(holdfast, running.id, 'done')
  expect(await holdfast.jobs.update(running.id, { definition: held, input: { n: 4 } })).toBe(false)
})

test('update rejects an input without its definition, the wrong definition, and an input that the schema rejects', async () => {
  const holdfast = await start('checked')
  const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' })
  const input = { input: { to: 'bob' } } as { priority?: number }
  await caught(UsageError, holdfast.jobs.update(id, input))
  await caught(UsageError, holdfast.jobs.update(id, { definition: report, input: null }))
  await caught(UsageError, holdfast.jobs.update(id, {}))
  expect((await holdfast.jobs.find(id))!.input).toEqual({ to: 'ada' })
})

test('a new input clears failures, and another time keeps them', async () => {
  const holdfast = await start('cleared')
  const broken = defineJob('broken', {
    retry: { backoff: '1h' },
    run: ({ ok }: { ok: boolean }) => {
      if (!ok) throw new Error('not ok')
    },
  })
  work(holdfast, [broken])
  const { id } = await holdfast.jobs.enqueue(broken, { ok: false })
  await until('the attempt has failed', async () => (await holdfast.jobs.find(id))!.failed === 1)
  expect(await holdfast.jobs.update(id, { delay: '2h' })).toBe(true)
  expect(await holdfast.jobs.find(id)).toMatchObject({ failed: 1, failures: [{ message: 'not ok' }] })
  expect(await holdfast.jobs.update(id, { startBy: '3h' })).toBe(false)
  expect(await holdfast.jobs.update(id, { definition: broken, input: { ok: true }, delay: 0 })).toBe(true)
  expect(await untilState(holdfast, id, 'done')).toMatchObject({ failed: 0, failures: [] })
})

test('watch reports a job until it has ended, with its progress as an object', async () => {
  const holdfast = await start('watch')
  const go = gate()
  const steps = defineJob('steps', {
    run: async (_: null, job) => {
      job.progress({ done: 1, total: 2, file: 'a' })
      job.progress({ size: 1n } as never)
      await go.opened
      return 'end'
    },
  })
  const job = await holdfast.jobs.enqueue(steps, null, { delay: '1h' })
  const seen: JobStatus[] = []
  const watched = (async () => {
    for await (const status of holdfast.jobs.watch(job)) seen.push(status)
  })()
  await until('the first status is reported', () => seen.length === 1)
  await holdfast.jobs.update(job.id, { delay: 0 })
  work(holdfast, [steps])
  await until('the progress is reported', () => seen.some(({ progress }) => progress !== undefined))
  go.open()
  await watched
  expect(seen[0]!.state).toBe('waiting')
  expect(seen.find(({ progress }) => progress !== undefined)!.progress).toEqual({ done: 1, total: 2, file: 'a' })
  expect(seen.at(-1)).toMatchObject({ state: 'done', result: 'end' })
  const none: JobStatus[] = []
  for await (const status of holdfast.jobs.watch(job.id + 1_000)) none.push(status)
  expect(none).toEqual([])
})

test('a watch ends when its signal aborts, when its loop is left, and when the instance closes', async () => {
  const holdfast = await start('unwatch')
  const job = await holdfast.jobs.enqueue(report, null, { delay: '1h' })
  const abort = new AbortController()
  const watchAll = async (signal?: AbortSignal) => {
    for await (const { state } of holdfast.jobs.watch(job, { signal }))
      if (state === 'waiting') abort.abort(new Error('enough'))
  }
  await expect(watchAll(abort.signal)).rejects.toThrow('enough')
  for await (const _ of holdfast.jobs.watch(job)) break
  const left = watchAll()
  const rejected = expect(left).rejects.toThrow('closed')
  await holdfast.close()
  await rejected
})

test('a job that is updated by the first statement after a restore can be updated again', async () => {
  const { url, drop } = await freshDatabase()
  onTestFinished(drop)
  const job = defineJob('restored', { run: ({ version }: { version: number }) => version })
  await sql(url, "select setval('holdfast.job_number', 1000)")
  const before = await open({ url })
  const { id } = await before.jobs.enqueue(job, { version: 1 })
  await before.close()
  // A restore sets the sequence back, and another transaction writes the row of server_generation.
  await sql(url, "select setval('holdfast.job_number', 1)")
  await sql(url, 'update holdfast.server_generation set written_by = written_by')
  const update = (version: number) =>
    `select holdfast.job_update(${id}, 'restored', '{"version": ${version}}', null, 1::smallint, null, null, null, null) as kind`
  expect(await sql(url, update(2))).toEqual([{ kind: 'restored' }])
  // The newest entry of a job has the largest number.
  expect(await sql(url, update(3))).toEqual([{ kind: 'restored' }])
  const after = await open({ url })
  work(after, [job])
  expect(await after.jobs.result(id, { wait: '10s' })).toBe(3)
})
