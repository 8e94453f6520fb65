// These tests use the built package, because a thread imports its program from there.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  defineJob,
  Holdfast,
  type ImplementedJob,
  implement,
  type JobStatus,
  type ThreadJobOptions,
  type ThreadOptions,
  UsageError,
  type WorkOptions,
} from '../../dist/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { until } from '../setup/facts.js'

const module = new URL('./thread-handlers.js', import.meta.url)
let fresh: FreshDatabase
let holdfast: Holdfast
beforeAll(async () => {
  fresh = await freshDatabase()
  holdfast = await Holdfast.open({ url: fresh.url, log: false })
})
afterAll(async () => {
  await holdfast.close()
  await fresh.drop()
})

let queues = 0
/** Defines a job in its own queue. */
function define<Input = null, Result = unknown>(
  threads: Omit<ThreadOptions, 'module'>,
  more: Pick<ThreadJobOptions<Input>, 'timeout'> = {},
) {
  const queue = `q${++queues}`
  return defineJob<Input, Result>(queue, { queue, retry: { attempts: 1 }, threads: { module, ...threads }, ...more })
}

function work(definitions: ImplementedJob[], options?: WorkOptions) {
  const worker = holdfast.jobs.work(definitions, options)
  onTestFinished(() => worker.close({ within: 0 }))
  return worker
}

async function ended(id: number): Promise<JobStatus> {
  let status: JobStatus | null = null
  await until(`job ${id} has ended`, async () => {
    status = await holdfast.jobs.find(id)
    return !['ready', 'running'].includes(status!.state)
  })
  return status!
}

const untilStarted = (id: number) =>
  until(`job ${id} has started`, async () => (await holdfast.jobs.find(id))?.progress === 1)

describe('a handler in a thread', () => {
  test('receives a copy of the validated input and its job, and returns a copy of its result', async () => {
    const job = defineJob('describe', {
      queue: 'describe',
      input: {
        '~standard': {
          version: 1,
          vendor: 'test',
          validate: (value: unknown) => ({ value: { at: new Date((value as { at: string }).at), text: 'hello' } }),
          types: undefined as { input: { at: string }; output: { at: Date; text: string } } | undefined,
        },
      },
      threads: { module },
    })
    work([job])
    const { id } = await holdfast.jobs.enqueue(job, { at: '2030-01-31' }, { meta: { tags: ['a'] } })
    const status = await ended(id)
    expect(status.result).toEqual({
      id,
      kind: 'describe',
      attempt: 1,
      meta: { tags: ['a'] },
      fence: true,
      threadId: expect.any(Number),
      date: true,
      map: 1,
    })
    expect((status.result as { threadId: number }).threadId).toBeGreaterThan(0)
    expect(status.progress).toBe(0.5)
    expect(status.log).toMatchObject([{ text: 'hello in a thread', data: { year: 2030 } }])
  })

  test('runs in a thread that earlier jobs have used, and in at most `max` threads', async () => {
    const job = define<number, number>({ export: 'whichThread', max: 2 })
    work([job])
    const refs = await holdfast.jobs.enqueueMany(job, new Array(12).fill(20))
    const threads = await Promise.all(refs.map((ref) => holdfast.jobs.result(ref)))
    expect(new Set(threads).size).toBe(2)
  })

  test('does not block the worker, which runs other jobs', async () => {
    const blocked = define({ export: 'compute' })
    const other = defineJob('other', { queue: blocked.queue, run: () => 'done' })
    work([blocked, other])
    const { id } = await holdfast.jobs.enqueue(blocked)
    await untilStarted(id)
    expect(await holdfast.jobs.result(await holdfast.jobs.enqueue(other))).toBe('done')
    await holdfast.jobs.cancel(id)
    expect(await ended(id)).toMatchObject({ state: 'cancelled', log: [{ text: 'JobCancelledError JOB_CANCELLED' }] })
  })

  test('that is idle when the signal aborts receives the reason', async () => {
    const job = define({ export: 'waitForAbort' })
    work([job])
    const { id } = await holdfast.jobs.enqueue(job)
    await untilStarted(id)
    await holdfast.jobs.cancel(id, 'not needed')
    expect(await ended(id)).toMatchObject({ state: 'cancelled', error: { message: 'not needed' } })
  })
})

describe('an attempt fails without an effect on the worker if the handler', () => {
  const failures: [how: string, state: string, error: object][] = [
    [
      'throw',
      'buried',
      { name: 'RangeError', message: 'too far', code: 'FAR', stack: expect.stringContaining('thread-handlers.js') },
    ],
    ['give up', 'buried', { name: 'NonRetryableError', message: 'no use' }],
    ['discard', 'discarded', { message: 'nothing to do' }],
    ['function', 'buried', { name: 'NonRetryableError', message: expect.stringContaining('cannot be copied') }],
    ['exit', 'buried', { name: 'ThreadEndedError', message: expect.stringContaining('with exit code 3') }],
    ['throw later', 'buried', { code: 'THREAD_ENDED', message: expect.stringContaining('nothing is not defined') }],
    ['memory', 'buried', { code: 'THREAD_ENDED', message: expect.stringContaining('no memory left') }],
    ['tx', 'buried', { name: 'NotInThreadError', code: 'NOT_IN_THREAD' }],
    ['enqueue', 'buried', { code: 'NOT_IN_THREAD' }],
    ['parents', 'buried', { code: 'NOT_IN_THREAD' }],
  ]
  test('throws, ends its thread, or uses what a thread does not have', async () => {
    const job = define<{ how: string }>({ export: 'misbehave', max: 2, maxHeapMb: 20 })
    const worker = work([job])
    const refs = await holdfast.jobs.enqueueMany(
      job,
      failures.map(([how]) => ({ how })),
    )
    const found = await Promise.all(refs.map(({ id }) => ended(id)))
    expect(found.map(({ state, error }) => ({ state, error }))).toMatchObject(
      failures.map(([, state, error]) => ({ state, error })),
    )
    const { id } = await holdfast.jobs.enqueue(job, { how: 'log a function' })
    expect(await ended(id)).toMatchObject({ state: 'done', log: [{ text: 'see' }] })
    const later = await holdfast.jobs.enqueue(job, { how: 'retry' })
    expect(await ended(later.id)).toMatchObject({ state: 'waiting', failed: 0 })
    expect(worker.running).toBe(0)
  })

  test('blocks its thread after the timeout: the thread is terminated, and a new thread runs the next job', async () => {
    const job = define({ export: 'blockForever' }, { timeout: '100ms' })
    const next = implement(defineJob<number, number>('next', { queue: job.queue }), {
      threads: { module, export: 'whichThread' },
    })
    work([job, next])
    const { id } = await holdfast.jobs.enqueue(job)
    expect(await ended(id)).toMatchObject({ state: 'buried', error: { code: 'JOB_TIMEOUT' } })
    expect(await holdfast.jobs.result(await holdfast.jobs.enqueue(next, 0))).toBeGreaterThan(0)
  })

  test('cannot be imported or is not exported', async () => {
    const absent = defineJob('absent', {
      queue: 'absent',
      retry: { attempts: 1 },
      threads: { module: new URL('./no-such-file.js', import.meta.url) },
    })
    const unnamed = define({ export: 'noSuchExport' })
    work([absent, unnamed])
    const first = await ended((await holdfast.jobs.enqueue(absent)).id)
    expect(first.error).toMatchObject({ code: 'THREAD_MODULE', message: expect.stringContaining('no-such-file.js') })
    const second = await ended((await holdfast.jobs.enqueue(unnamed)).id)
    expect(second.error?.message).toContain('must export the handler as "noSuchExport", got undefined')
  })

  test('receives an input that cannot be copied', async () => {
    const job = defineJob('uncopied', {
      queue: 'uncopied',
      input: { '~standard': { version: 1, vendor: 'test', validate: () => ({ value: () => {} }) } },
      threads: { module },
    })
    work([job])
    const { error } = await ended((await holdfast.jobs.enqueue(job, 'x' as never)).id)
    expect(error).toMatchObject({ name: 'NonRetryableError', message: expect.stringContaining('cannot be copied') })
  })
})

test('a worker that closes returns the jobs of blocked threads, and jobs that wait for a thread', async () => {
  const job = define({ export: 'compute' })
  const other = defineJob(`${job.kind} other`, { queue: job.queue, run: () => {} })
  const worker = holdfast.jobs.work([job, other])
  const [first, second] = await holdfast.jobs.enqueueMany(job, [null, null])
  await untilStarted(first!.id)
  await until('the second job waits for the thread', () => worker.running === 2)
  await worker.close({ within: 0 })
  for (const { id } of [first!, second!]) {
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready', failed: 0, crashes: 0 })
  }
})

test('the wait for a thread does not count towards the timeout', async () => {
  const job = define<number, number>({ export: 'whichThread' }, { timeout: '2s' })
  const other = defineJob(`${job.kind} other`, { queue: job.queue, run: () => {} })
  work([job, other])
  const refs = await holdfast.jobs.enqueueMany(job, new Array(8).fill(300))
  const found = await Promise.all(refs.map(({ id }) => ended(id)))
  expect(found.map(({ state }) => state)).toEqual(new Array(8).fill('done'))
})

test('a worker with no other definitions claims only as many jobs as it has threads', async () => {
  const job = define({ export: 'waitForAbort', max: 2 })
  const worker = work([job], { concurrency: 10 })
  const refs = await holdfast.jobs.enqueueMany(job, new Array(5).fill(null))
  await until('two jobs have started', async () => {
    const found = await Promise.all(refs.map(({ id }) => holdfast.jobs.find(id)))
    return found.filter((one) => one?.progress === 1).length === 2
  })
  expect(worker.running).toBe(2)
})

test('a handler that middleware calls after the attempt has ended does not use the thread of another attempt', {
  timeout: 30_000,
}, async () => {
  let late: number | undefined
  const called: unknown[] = []
  const slow = await Holdfast.open({
    url: fresh.url,
    log: false,
    middleware: [
      {
        run: async (call, next) => {
          const isLate = call.type === 'job' && call.id === late
          // Longer than the timeout and the time after which an attempt is given up.
          if (isLate) await new Promise((resolve) => setTimeout(resolve, 5_700))
          const result = await next().catch((error: unknown) => error)
          if (isLate) called.push(result)
          return result
        },
      },
    ],
  })
  onTestFinished(() => slow.close())
  const job = define<number, number>({ export: 'whichThread', max: 1 }, { timeout: '20s' })
  const worker = slow.jobs.work([job])
  onTestFinished(() => worker.close({ within: 0 }))
  const first = await slow.jobs.enqueue(job, 1, { timeout: '100ms' })
  late = first.id
  await until('the first job runs', async () => (await slow.jobs.find(first.id))?.state === 'running')
  const second = await slow.jobs.enqueue(job, 3_000)
  expect(typeof (await slow.jobs.result(second))).toBe('number')
  await until('the late call has ended', () => called.length === 1)
  expect(called).toMatchObject([{ code: 'JOB_TIMEOUT' }])
})

test('an attempt whose thread ends before its handler is called fails', { timeout: 30_000 }, async () => {
  let delayMs = 0
  const slow = await Holdfast.open({
    url: fresh.url,
    log: false,
    middleware: [
      {
        run: async (_, next) => {
          await new Promise((resolve) => setTimeout(resolve, delayMs))
          return next()
        },
      },
    ],
  })
  onTestFinished(() => slow.close())
  const job = define({ export: 'endLater', max: 1 })
  const worker = slow.jobs.work([job])
  onTestFinished(() => worker.close({ within: 0 }))
  await slow.jobs.result(await slow.jobs.enqueue(job))
  delayMs = 1_000
  expect(await ended((await slow.jobs.enqueue(job)).id)).toMatchObject({
    state: 'buried',
    error: { code: 'THREAD_ENDED', message: expect.stringContaining('exit code 3') },
  })
})

test('invalid options of threads are rejected', async () => {
  const threads = (given: unknown) => () => defineJob('x', { threads: given as ThreadOptions })
  for (const given of [
    2,
    {},
    { module: './resize.js' },
    { module, max: 0 },
    { module, export: '' },
    { module, size: 1 },
  ]) {
    expect(threads(given)).toThrow(UsageError)
  }
  const both = { threads: { module }, run: () => {} } as never
  expect(() => defineJob('x', both)).toThrow('Expected threads without run')
  expect(() => implement(defineJob('x'), { threads: { module }, batch: { size: 2 } } as never)).toThrow(
    'Expected threads without batch',
  )
})
