import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { type Duration, defineJob, type Holdfast, type JobStatus, UsageError } from '../../src/index.js'
import {
  drain,
  type EnqueuedJob,
  emptyQueues,
  enqueued,
  jobEnded,
  passTime,
  TestTimeoutError,
} from '../../src/testing/index.js'
import { gate, work } from '../jobs/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

function openAlone(namespace = `kit ${randomBytes(4).toString('hex')}`): Promise<Holdfast> {
  return open({ url: fresh.url, namespace })
}

const mail = defineJob('mail', { queue: 'post', run: ({ to }: { to: string }) => ({ sent: to }) })

describe('jobEnded', () => {
  test('jobEnded returns the final status of a done and of a buried job', async () => {
    const holdfast = await openAlone()
    const bury = defineJob('bury', {
      retry: { attempts: 1 },
      run: () => {
        throw new TypeError('broken')
      },
    })
    const done = await holdfast.jobs.enqueue(mail, { to: 'ada' })
    const buried = await holdfast.jobs.enqueue(bury, null)
    const ended = [jobEnded(holdfast, done.id), jobEnded(holdfast, buried.id, { within: '10s' })]
    work(holdfast, [mail, bury])
    expect(await Promise.all(ended)).toMatchObject([
      { state: 'done', result: { sent: 'ada' } },
      { state: 'buried', error: { name: 'TypeError', message: 'broken' } },
    ])
    expectTypeOf(jobEnded).returns.resolves.toEqualTypeOf<JobStatus>()
  })

  test.each<[string, Duration | undefined, string | RegExp]>([
    ['ready without a worker', undefined, 'is ready in the queue "post", which has no worker'],
    ['delayed', '1h', /is waiting for its time, until 20.*Z \(passTime skips the wait\)$/],
  ])('jobEnded throws an error with the state of a job that is %s', async (_, delay, message) => {
    const holdfast = await openAlone()
    const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay })
    const error = await caught(TestTimeoutError, jobEnded(holdfast, id, { within: 20 }))
    expect(error.message).toMatch(new RegExp(`^The job did not end within 20ms:\n  job ${id} \\(mail\\) `))
    expect(error.message).toMatch(message)
    expect(error.jobs).toMatchObject([{ id }])
  })

  test('jobEnded throws an error that names a paused queue, workers of other kinds, a running job, or a missing job', async () => {
    const holdfast = await openAlone()
    const messageOf = async (id: number) =>
      (await caught(TestTimeoutError, jobEnded(holdfast, id, { within: 20 }))).message
    const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' })
    await holdfast.jobs.pause('post')
    expect(await messageOf(id)).toContain('is ready, but is waiting for its queue, which has been paused since 20')
    await holdfast.jobs.resume('post')
    work(holdfast, [defineJob('other', { queue: 'post', run: () => {} })])
    await expect.poll(() => messageOf(id)).toContain('where all workers are busy or do not handle jobs of this kind')
    const { opened, open } = gate()
    const hold = defineJob('hold', {
      run: (_, job) => {
        job.progress(0.5)
        return opened
      },
    })
    const held = await holdfast.jobs.enqueue(hold, null)
    work(holdfast, [hold])
    await expect
      .poll(() => messageOf(held.id))
      .toMatch(/\(hold\) has been running on this instance since 20.*Z, with progress 0.5$/)
    open()
    await jobEnded(holdfast, held.id)
    expect(await messageOf(2 ** 40)).toContain(`job ${2 ** 40} does not exist`)
  })
})

describe('enqueued', () => {
  test('enqueued lists jobs that have not started, with their input and options', async () => {
    const holdfast = await openAlone()
    const other = await openAlone()
    await other.jobs.enqueue(mail, { to: 'not ours' })
    const plain = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { priority: 3, meta: { tags: ['vip'] } })
    const delayed = await holdfast.jobs.enqueue(mail, { to: 'bob' }, { delay: '10m' })
    const runAt = new Date(Date.now() + 3_600_000)
    const dated = await holdfast.jobs.enqueue(defineJob<unknown>('dated', { run: () => {} }), ['x'], { runAt })
    const mails = await enqueued(holdfast, mail)
    expectTypeOf(mails).toEqualTypeOf<EnqueuedJob<{ to: string }>[]>()
    expect(mails).toEqual([
      {
        id: plain.id,
        kind: 'mail',
        queue: 'post',
        input: { to: 'ada' },
        meta: { tags: ['vip'] },
        priority: 3,
        runAt: undefined,
        delayMs: 0,
      },
      {
        id: delayed.id,
        kind: 'mail',
        queue: 'post',
        input: { to: 'bob' },
        meta: {},
        priority: 0,
        runAt: expect.any(Date),
        delayMs: 600_000,
      },
    ])
    const all = await enqueued(holdfast)
    expectTypeOf(all).toEqualTypeOf<EnqueuedJob<unknown>[]>()
    expect(all.map(({ id }) => id)).toEqual([plain.id, delayed.id, dated.id])
    expect(all[2]).toMatchObject({ kind: 'dated', input: ['x'], runAt })
    await drain(holdfast, [mail])
    expect(await enqueued(holdfast, mail)).toMatchObject([{ id: delayed.id }])
  })

  test('enqueued does not list jobs of a rolled back transaction', async () => {
    const holdfast = await openAlone()
    const client = await sqlSession(fresh.url)
    await client.query('begin')
    await holdfast.jobs.enqueue(mail, { to: 'ada' }, { tx: client })
    await client.query('rollback')
    expect(await enqueued(holdfast)).toEqual([])
  })
})

describe('passTime', () => {
  test('passTime makes delayed jobs of its own namespace due', async () => {
    const holdfast = await openAlone()
    const other = await openAlone()
    for (const { jobs } of [holdfast, other]) {
      await jobs.enqueue(mail, { to: 'soon' }, { delay: '30m' })
      await jobs.enqueue(mail, { to: 'later' }, { delay: '2h' })
    }
    expect(await passTime(holdfast, '1h')).toBe(1)
    // The job is ready immediately, without a maintenance run.
    expect(await enqueued(holdfast)).toMatchObject([
      { input: { to: 'soon' }, runAt: undefined },
      { input: { to: 'later' }, delayMs: 3_600_000 },
    ])
    expect(await enqueued(other)).toMatchObject([{ delayMs: 1_800_000 }, { delayMs: 7_200_000 }])
    expect(await passTime(holdfast, '30m')).toBe(0)
  })

  test('passTime wakes a worker that does not wait for a due job', async () => {
    const holdfast = await openAlone()
    work(holdfast, [mail])
    const { id } = await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay: '1d' })
    await passTime(holdfast, '1d')
    expect(await jobEnded(holdfast, id, { within: '2s' })).toMatchObject({ state: 'done' })
  })

  test('passTime ends sleeps and waits for events, and enqueued does not list jobs that have started', async () => {
    const holdfast = await openAlone()
    const slow = defineJob('slow', {
      run: async (_: null, job) => {
        await job.sleep('1d')
        return String(await job.event('approved', { within: '1h' }))
      },
    })
    const { id } = await holdfast.jobs.enqueue(slow)
    await drain(holdfast, [slow])
    expect(await enqueued(holdfast)).toEqual([])
    await passTime(holdfast, '1d')
    await drain(holdfast, [slow])
    expect((await holdfast.jobs.find(id))!.state).toBe('waiting')
    await passTime(holdfast, '1h')
    expect(await drain(holdfast, [slow])).toMatchObject([{ id, state: 'done', result: 'undefined' }])
    await emptyQueues(holdfast)
    expect(await sql(fresh.url, 'select from holdfast.job_step where job = $1', [id])).toEqual([])
  })

  test('passTime shortens the windows of unique jobs', async () => {
    const holdfast = await openAlone()
    const unique = { key: 'ada', for: '1h' } as const
    const isNew = async () => (await holdfast.jobs.enqueue(mail, { to: 'ada' }, { unique })).isNew
    expect([await isNew(), await isNew()]).toEqual([true, false])
    await passTime(holdfast, '59m')
    expect(await isNew()).toBe(false)
    await passTime(holdfast, '1m')
    expect(await isNew()).toBe(true)
  })

  test('passTime expires all jobs whose deadline has passed, also while another session runs maintenance', async () => {
    const holdfast = await openAlone()
    const inputs = Array.from({ length: 1_100 }, () => ({ to: 'ada' }))
    const jobs = await holdfast.jobs.enqueueMany(mail, inputs, { startBy: '1h' })
    const client = await sqlSession(fresh.url)
    await client.query("select pg_advisory_lock(holdfast.lock_class('job maintenance'), 0)")
    let hasReturned = false
    const passed = passTime(holdfast, '2h').then(() => {
      hasReturned = true
    })
    await until('passTime has changed the deadlines', async () => {
      const [row] = await sql<{ late: boolean }>(
        fresh.url,
        'select exists (select from holdfast.job_deadline where start_by < now() and id = $1) as late',
        [jobs[0]!.id],
      )
      return row!.late
    })
    expect(hasReturned).toBe(false)
    await client.query("select pg_advisory_unlock(holdfast.lock_class('job maintenance'), 0)")
    await passed
    const [{ expired }] = (await sql<{ expired: number }>(
      fresh.url,
      "select count(*)::integer as expired from holdfast.job_stopped where state = 'expired' and id = any($1::bigint[])",
      [jobs.map(({ id }) => id)],
    )) as [{ expired: number }]
    expect(expired).toBe(1_100)
  })

  test('passTime refuses an invalid duration', async () => {
    const holdfast = await openAlone()
    expect((await caught(UsageError, passTime(holdfast, 'soon' as never))).message).toBe(
      'Expected time to be a duration, got "soon" (string)',
    )
  })
})

test('emptyQueues deletes all jobs of its own namespace, and none of others', async () => {
  const holdfast = await openAlone()
  const other = await openAlone()
  const kept = await other.jobs.enqueue(mail, { to: 'kept' })
  const once = { unique: { key: 'once', for: '1h' } } as const
  await holdfast.jobs.enqueue(mail, { to: 'done' }, once)
  await drain(holdfast, [mail])
  let reason: unknown
  const hold = defineJob('hold', {
    run: (_, { signal }) =>
      new Promise<void>((resolve) =>
        signal.addEventListener('abort', () => {
          reason = signal.reason
          resolve()
        }),
      ),
  })
  const worker = work(holdfast, [hold])
  const running = await holdfast.jobs.enqueue(hold, null)
  await expect.poll(() => worker.running).toBe(1)
  await holdfast.jobs.pause('post')
  await holdfast.jobs.enqueue(mail, { to: 'ready' }, { unique: 'key' })
  await holdfast.jobs.enqueue(mail, { to: 'waiting' }, { delay: '1h' })
  expect(await emptyQueues(holdfast)).toBe(4)
  expect(await emptyQueues(holdfast)).toBe(0)
  expect(await enqueued(holdfast)).toEqual([])
  expect(await holdfast.jobs.find(running.id)).toBeNull()
  await expect.poll(() => reason, { timeout: 5_000 }).toMatchObject({ code: 'JOB_LOST' })
  expect(await holdfast.jobs.find(running.id)).toBeNull()
  expect(await enqueued(other)).toMatchObject([{ id: kept.id }])
  expect((await holdfast.jobs.enqueue(mail, { to: 'next' }, once)).isNew).toBe(true)
  expect(await drain(holdfast, [mail])).toMatchObject([{ state: 'done' }])
  await worker.close()
  expect(await sql(fresh.url, 'select from holdfast.claim')).toEqual([])
})
