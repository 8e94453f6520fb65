import { afterAll, beforeAll, expect, test } from 'vitest'
import { type BatchJob, DrainingError, defineJob, JobCancelledError, JobOutcome, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { gate, giveClaimAway, untilState, work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const start = (namespace: string) => open({ url: fresh.url, namespace })
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

test('a batch handler receives many jobs in one call, and each job has its own result', async () => {
  const holdfast = await start('many')
  const sizes: number[] = []
  const double = defineJob('double', {
    batch: { size: 100 },
    run: async (jobs: readonly BatchJob<number>[]) => {
      sizes.push(jobs.length)
      return jobs.map(({ input }) => input * 2)
    },
  })
  const refs = await holdfast.jobs.enqueueMany(double, numbers(950))
  work(holdfast, [double], { concurrency: 1 })
  for (const [n, { id }] of refs.entries()) {
    if (n % 50 === 0) expect(await holdfast.jobs.result(id)).toBe(n * 2)
  }
  await until('all jobs have run', () => sizes.reduce((sum, size) => sum + size, 0) === 950)
  expect(Math.max(...sizes)).toBe(100)
  expect(sizes.length).toBeLessThan(20)
})

test('a worker runs at most as many batches as its concurrency, and claims enough jobs to fill them', async () => {
  const holdfast = await start('places')
  const opening = gate()
  const running: number[] = []
  const hold = defineJob<unknown>('hold', {
    batch: { size: 5 },
    run: async (jobs) => {
      running.push(jobs.length)
      await opening.opened
    },
  })
  await holdfast.jobs.enqueueMany(hold, numbers(30))
  const worker = work(holdfast, [hold], { concurrency: 3 })
  await until('three batches run', () => running.length === 3 && worker.running === 15)
  expect(running).toEqual([5, 5, 5])
  opening.open()
  await until('all batches have run', () => running.length === 6)
})

test('a batch waits for more jobs, but no longer than its wait time', async () => {
  const holdfast = await start('waits')
  const sizes: number[] = []
  const note = defineJob<unknown>('note', {
    batch: { size: 3, wait: '300ms' },
    run: (jobs) => void sizes.push(jobs.length),
  })
  work(holdfast, [note])
  for (const n of numbers(3)) {
    await holdfast.jobs.enqueue(note, n)
    if (n < 2) await untilState(holdfast, (await holdfast.jobs.enqueue(note, n)).id, 'running')
    if (n === 0) expect(sizes).toEqual([])
  }
  await until('a full batch and a smaller batch have run', () => sizes.length === 2)
  expect(sizes).toEqual([3, 2])
})

test('batches that are collected or running do not use the slots of other jobs', async () => {
  const holdfast = await start('mixed')
  const opening = gate()
  let batches = 0
  const patient = defineJob<unknown>('patient', { queue: 'mixed', batch: { size: 100, wait: '1m' }, run: () => {} })
  const large = defineJob<unknown>('large', {
    queue: 'mixed',
    batch: { size: 10 },
    run: () => {
      batches++
      return opening.opened
    },
  })
  const plain = defineJob('plain', { queue: 'mixed', run: () => 'ran' })
  work(holdfast, [patient, large, plain], { concurrency: 3 })
  const refs = await holdfast.jobs.enqueueMany(patient, numbers(5))
  for (const { id } of refs) await untilState(holdfast, id, 'running')
  await holdfast.jobs.enqueueMany(large, numbers(2))
  await until('a batch runs', () => batches > 0)
  const began = performance.now()
  expect(await holdfast.jobs.result(await holdfast.jobs.enqueue(plain))).toBe('ran')
  expect(performance.now() - began).toBeLessThan(5_000)
  opening.open()
})
test('each job of a batch ends on its own, with a result, an outcome or an error', async () => {
  const holdfast = await start('each')
  const reported: [number, string][] = []
  const mixed = defineJob('mixed', {
    batch: { size: 10 },
    retry: { attempts: 2, backoff: 10 },
    run: (jobs: readonly BatchJob<string>[]) =>
      jobs.map(({ input, attempt, progress, log }) => {
        log(`attempt ${attempt}`)
        progress(attempt)
        if (input === 'later') return attempt === 1 && reported.length < 2 ? JobOutcome.retryAfter(30) : 'at last'
        if (input === 'fails') return new Error(`no ${attempt}`)
        if (input === 'fails once') return attempt === 1 ? new TypeError('once') : 'then'
        if (input === 'no JSON') return 1n
        return input === 'cancel'
          ? JobOutcome.cancel('unwanted')
          : input === 'discard'
            ? JobOutcome.discard('gone')
            : input
      }),
  })
  const inputs = ['value', 'later', 'fails', 'fails once', 'no JSON', 'cancel', 'discard']
  const refs = await holdfast.jobs.enqueueMany(mixed, inputs)
  holdfast.on('job.failed', ({ attempt, state }) => reported.push([attempt, state]))
  work(holdfast, [mixed])
  const state = async (at: number, wanted: string) => untilState(holdfast, refs[at]!.id, wanted)
  expect(await state(0, 'done')).toMatchObject({
    result: 'value',
    progress: 1,
    log: [{ attempt: 1, number: 1, text: 'attempt 1' }],
  })
  expect(await state(1, 'done')).toMatchObject({ result: 'at last', failed: 0 })
  expect((await state(2, 'buried')).failures.map(({ message }) => message)).toEqual(['no 1', 'no 2'])
  expect(await state(3, 'done')).toMatchObject({ result: 'then', failed: 1 })
  expect((await state(4, 'buried')).error!.message).toContain('Expected a result that JSON can represent')
  expect((await state(5, 'cancelled')).error!.message).toBe('unwanted')
  expect((await state(6, 'discarded')).error!.message).toBe('gone')
  expect(reported.sort()).toEqual([
    [1, 'buried'],
    [1, 'retried'],
    [1, 'retried'],
    [2, 'buried'],
  ])
})

test('an error that a batch handler throws fails all jobs of the batch, and so does a wrong number of results', async () => {
  const holdfast = await start('throws')
  const throws = defineJob('throws', {
    batch: { size: 10 },
    retry: { attempts: 1 },
    run: (_: readonly BatchJob[]) => {
      throw new Error('all of them')
    },
  })
  const miscounts = defineJob('miscounts', { batch: { size: 10 }, run: (_: readonly BatchJob[]) => [1] })
  const failed = await holdfast.jobs.enqueueMany(throws, numbers(3))
  const miscounted = await holdfast.jobs.enqueueMany(miscounts, numbers(3))
  work(holdfast, [throws, miscounts])
  for (const { id } of failed) await expect(holdfast.jobs.result(id)).rejects.toThrow('was buried: all of them')
  for (const { id } of miscounted) {
    await expect(holdfast.jobs.result(id)).rejects.toThrow(
      'Expected the batch handler to return nothing or 3 results, got 1',
    )
  }
})

test('a job whose input does not match its schema is buried without the rest of the batch', async () => {
  const holdfast = await start('schema')
  const schema = (max: number) => ({
    '~standard': {
      version: 1 as const,
      vendor: 'test',
      validate: (value: unknown) =>
        typeof value === 'number' && value <= max ? { value: `${value}` } : { issues: [{ message: 'too much' }] },
      types: undefined as { input: number; output: string } | undefined,
    },
  })
  const sizes: number[] = []
  const options = (max: number) => ({
    input: schema(max),
    batch: { size: 10 },
    run: (jobs: readonly BatchJob<string>[]) => {
      sizes.push(jobs.length)
      return jobs.map(({ input }) => input.padStart(3, '0'))
    },
  })
  // The type of the input comes from the schema.
  defineJob('typed', { input: schema(1), batch: { size: 2 }, run: (jobs) => jobs.map(({ input }) => input.length) })
  const refs = await holdfast.jobs.enqueueMany(defineJob('checked', options(10)), [1, 9, 3])
  work(holdfast, [defineJob('checked', options(5))], { concurrency: 1 })
  expect(await holdfast.jobs.result(refs[0]!.id)).toBe('001')
  await expect(holdfast.jobs.result(refs[1]!.id)).rejects.toThrow('too much')
  expect(await holdfast.jobs.result(refs[2]!.id)).toBe('003')
  expect(sizes).toEqual([2])
})

test('a job of a batch that is cancelled or lost does not affect the other jobs of the batch', async () => {
  const holdfast = await start('cancelled')
  const opening = gate()
  const jobsSeen: BatchJob<number>[] = []
  const hold = defineJob('hold', {
    batch: { size: 4, wait: '1h' },
    run: async (jobs: readonly BatchJob<number>[]) => {
      jobsSeen.push(...jobs)
      for (const { signal } of jobs) expect(signal.aborted).toBe(false)
      await opening.opened
      return jobs.map(({ input, signal }) => (signal.aborted ? (signal.reason as Error) : input))
    },
  })
  const worker = work(holdfast, [hold])
  // The lost job has its own claim, because claims are taken over as a whole.
  const lost = await holdfast.jobs.enqueue(hold, 2)
  await untilState(holdfast, lost.id, 'running')
  const refs = await holdfast.jobs.enqueueMany(hold, [0, 1, 3])
  await until('all four jobs run', () => jobsSeen.length === 4)
  await holdfast.jobs.cancel(refs[1]!.id, 'not this one')
  await giveClaimAway(fresh.url, lost.id)
  const [zero, one, two, three] = numbers(4).map((n) => jobsSeen.find(({ input }) => input === n)!)
  await until('the cancelled job and the lost job are aborted', () => one!.signal.aborted && two!.signal.aborted)
  expect(one!.signal.reason).toBeInstanceOf(JobCancelledError)
  expect([zero, three].map((job) => job!.signal.aborted)).toEqual([false, false])
  opening.open()
  expect(await holdfast.jobs.result(refs[0]!.id)).toBe(0)
  expect(await holdfast.jobs.result(refs[2]!.id)).toBe(3)
  await expect(holdfast.jobs.result(refs[1]!.id)).rejects.toThrow('was cancelled: not this one')
  await until('no job runs', () => worker.running === 0)
  expect((await holdfast.jobs.find(lost.id))!.state).toBe('running')
})

test('a batch that exceeds its timeout fails all its jobs and frees its slot', async () => {
  const holdfast = await start('timeout')
  let calls = 0
  const slow = defineJob('slow', {
    batch: { size: 3 },
    timeout: 50,
    retry: { attempts: 1 },
    run: async (jobs: readonly BatchJob[]) => {
      calls++
      await new Promise((resolve) => jobs[0]!.signal.addEventListener('abort', resolve))
    },
  })
  const refs = await holdfast.jobs.enqueueMany(slow, numbers(6))
  work(holdfast, [slow], { concurrency: 1 })
  for (const { id } of refs) {
    await expect(holdfast.jobs.result(id)).rejects.toThrow('The attempt exceeded its timeout of 50ms')
  }
  expect(calls).toBe(2)
})

test('jobs with an earlier crash are recorded as started, and a job with one crash left runs alone', async () => {
  const holdfast = await start('crashed')
  const batches: number[][] = []
  const opening = gate()
  const note = defineJob('note', {
    batch: { size: 10 },
    run: async (jobs: readonly BatchJob<number>[]) => {
      batches.push(jobs.map(({ input }) => input))
      await opening.opened
    },
  })
  const refs = await holdfast.jobs.enqueueMany(note, numbers(5))
  await sql(fresh.url, 'update holdfast.job set crashes = 1 where id = $1', [refs[1]!.id])
  await sql(fresh.url, 'update holdfast.job set crashes = 2 where id = any($1)', [[refs[2]!.id, refs[3]!.id]])
  work(holdfast, [note])
  await until('two batches have begun', () => batches.length === 2)
  const started = await sql<{ id: string }>(fresh.url, 'select id from holdfast.job_running where started order by id')
  expect(started.map(({ id }) => Number(id))).toEqual([refs[1]!.id, refs[2]!.id])
  expect(batches.sort((a, b) => b.length - a.length)).toEqual([[0, 1, 4], [2]])
  opening.open()
  for (const { id } of refs) await holdfast.jobs.result(id)
  expect(batches).toContainEqual([3])
})

test('worker.close returns a job that waits for its batch, and aborts a running batch', async () => {
  const holdfast = await start('closing')
  const reasons: unknown[] = []
  const hold = defineJob('hold', {
    batch: { size: 2, wait: '1h' },
    run: async (jobs: readonly BatchJob[]) => {
      await new Promise((resolve) => jobs[0]!.signal.addEventListener('abort', resolve))
      reasons.push(jobs[1]!.signal.reason)
      throw new Error('stopped')
    },
  })
  const refs = await holdfast.jobs.enqueueMany(hold, numbers(3))
  const worker = work(holdfast, [hold])
  await until('two jobs run', () => worker.running === 2)
  await untilState(holdfast, refs[2]!.id, 'running')
  await worker.close({ within: 50 })
  expect(reasons[0]).toBeInstanceOf(DrainingError)
  for (const { id } of refs) expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'ready', failed: 0 })
})

test('invalid batch options throw a UsageError', async () => {
  const refused = async (message: string, call: () => unknown) =>
    expect((await caught(UsageError, async () => call())).message).toContain(message)
  const run = () => {}
  await refused('Expected the options of batch to be an object, got null', () =>
    defineJob('x', { batch: null as never, run }),
  )
  await refused('Expected batch.size, got none', () => defineJob('x', { batch: {} as never, run }))
  await refused('Expected size to be a whole number between 1 and 1000, got 0', () =>
    defineJob('x', { batch: { size: 0 }, run }),
  )
})
