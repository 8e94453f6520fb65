import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, type Holdfast, JobOutcome, NonRetryableError, UsageError } from '../../src/index.js'
import { drain, enqueued, passTime, TestTimeoutError } from '../../src/testing/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught } from '../setup/facts.js'
import { open } from '../setup/instances.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

function openAlone(): Promise<Holdfast> {
  return open({ url: fresh.url, namespace: `kit ${randomBytes(4).toString('hex')}` })
}

const double = defineJob('double', { run: (n: number) => n * 2 })
const fail = defineJob('fail', {
  retry: { attempts: 2, backoff: '10m' },
  run: (_: unknown, { attempt }) => {
    throw new Error(`attempt ${attempt}`)
  },
})

test('drain runs ready jobs, due jobs and jobs that are enqueued during the drain, and returns their outcomes', async () => {
  const holdfast = await openAlone()
  const parent = defineJob('parent', {
    queue: 'families',
    run: async (_, job) => {
      await job.enqueue(double, 21)
      await job.enqueue(double, 5, { delay: '1h' })
    },
  })
  const due = await holdfast.jobs.enqueue(double, 1, { delay: '1h' })
  await passTime(holdfast, '1h')
  const first = await holdfast.jobs.enqueue(parent, null)
  const ended = await drain(holdfast, [parent, double])
  expect(ended).toMatchObject([
    { id: due.id, state: 'done', result: 2 },
    { id: first.id, kind: 'parent', state: 'done' },
    { kind: 'double', state: 'done', input: 21, result: 42 },
  ])
  expect(await enqueued(holdfast)).toMatchObject([{ kind: 'double', input: 5 }])
  expect(await drain(holdfast, [parent, double])).toEqual([])
})

test('drain returns failed jobs, and does not wait for later attempts', async () => {
  const holdfast = await openAlone()
  const bury = defineJob<unknown>('bury', {
    run: () => {
      throw new NonRetryableError('never')
    },
  })
  const wait = defineJob<unknown>('wait', { run: () => JobOutcome.retryAfter('1h') })
  const strict = defineJob<unknown>('strict', { run: () => {} })
  const ids = [
    await holdfast.jobs.enqueue(fail, 1),
    await holdfast.jobs.enqueue(bury, 1),
    await holdfast.jobs.enqueue(wait, 1),
    await holdfast.jobs.enqueue(strict, 1),
  ].map(({ id }) => id)
  const validating = defineJob('strict', {
    input: {
      '~standard': { version: 1 as const, vendor: 'test', validate: () => ({ issues: [{ message: 'no good' }] }) },
    },
    run: () => {},
  })
  const all = [fail, bury, wait, validating]
  expect(await drain(holdfast, all)).toMatchObject([
    { id: ids[0], state: 'waiting', waitsFor: { reason: 'attempt' }, failures: [{ message: 'attempt 1' }] },
    { id: ids[1], state: 'buried', error: { message: 'never' } },
    { id: ids[2], state: 'waiting' },
    { id: ids[3], state: 'buried', error: { code: 'INVALID_INPUT' } },
  ])
  expect(await drain(holdfast, all)).toEqual([])
  expect(await passTime(holdfast, '10m')).toBe(1)
  expect(await drain(holdfast, all)).toMatchObject([{ id: ids[0], state: 'buried', failed: 2 }])
})

test('drain runs all jobs of a lane one after the other', async () => {
  const holdfast = await openAlone()
  const inLane = defineJob('in lane', { queue: 'lanes', lanes: { max: 1 }, run: (n: number) => n })
  for (let round = 0; round < 5; round++) {
    await holdfast.jobs.enqueueMany(inLane, [1, 2, 3, 4], { lane: 'one' })
    // This is shorter than the timeout of the test, so that the error can list the jobs.
    const ended = await drain(holdfast, [inLane], { within: '15s' })
    expect(ended.map(({ state, result }) => [state, result])).toEqual([1, 2, 3, 4].map((n) => ['done', n]))
  }
})

test('drain does not run jobs of other kinds, other queues and paused queues', async () => {
  const holdfast = await openAlone()
  const elsewhere = defineJob('double', { queue: 'elsewhere', run: (n: number) => n * 2 })
  await holdfast.jobs.enqueue(double, 1)
  await holdfast.jobs.enqueue(elsewhere, 2)
  await holdfast.jobs.enqueue(fail, 3)
  expect(await drain(holdfast, [double], { queue: 'elsewhere' })).toMatchObject([{ input: 2 }])
  await holdfast.jobs.pause('default')
  expect(await drain(holdfast, [double])).toEqual([])
  await holdfast.jobs.resume('default')
  expect(await drain(holdfast, [double])).toMatchObject([{ input: 1 }])
  expect(await enqueued(holdfast)).toMatchObject([{ kind: 'fail', input: 3 }])
})

test('drain that exceeds its deadline throws an error with the state of each job', async () => {
  const holdfast = await openAlone()
  const slow = defineJob('slow', {
    run: (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const { id } = await holdfast.jobs.enqueue(slow, null)
  const error = await caught(TestTimeoutError, drain(holdfast, [slow], { within: '2s' }))
  expect(error).toMatchObject({ code: 'TEST_TIMEOUT', jobs: [{ id, state: 'running' }] })
  expect(error.message).toMatch(
    new RegExp(`^The drain did not end within 2s:\n  job ${id} \\(slow\\) has been running on this instance since `),
  )
  // The job is ready again, without a failed attempt.
  expect(await enqueued(holdfast, slow)).toMatchObject([{ id }])
})

test('drain throws a UsageError for invalid arguments', async () => {
  const holdfast = await openAlone()
  const messageOf = async (work: Promise<unknown>) => (await caught(UsageError, work)).message
  expect(await messageOf(drain(holdfast, []))).toBe(
    'Expected a list of definitions made by defineJob, got an empty array',
  )
  expect(await messageOf(drain(holdfast, double as never))).toBe(
    'Expected a list of definitions made by defineJob, got an object (Object)',
  )
  expect(await messageOf(drain(holdfast, [double], { whithin: 1 } as never))).toBe(
    'drain has no option "whithin": did you mean "within"?',
  )
  expect(await messageOf(drain({} as never, [double]))).toBe(
    'Expected an instance that Holdfast.open returned, got an object (Object)',
  )
})
