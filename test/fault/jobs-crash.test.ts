import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { until, within } from '../setup/facts.js'
import { quantiles } from './children.js'
import { expiryMs, openDatabase, openInstance } from './fixture.js'
import { startWorker } from './jobs-fixture.js'

const kills = 5

test(`a job runs elsewhere after each of ${kills} kills of its worker`, { timeout: 180_000 }, async () => {
  const { url, witness } = await openDatabase()
  const holdfast = await openInstance(url)
  const took: number[] = []
  // All workers start at the same time, because starting takes long. A takeover that waited for the expiry would take a minute.
  const workers = await Promise.all(
    Array.from({ length: kills }, (_, at) => startWorker(url, { queues: [`${at}`], expiryMs: 60_000 })),
  )
  for (const [at, worker] of workers.entries()) {
    const queue = `${at}`
    const started = new Map<number, (found: object) => void>()
    const hold = defineJob('hold', {
      queue,
      run: (_: null, job) => {
        started.get(job.id)?.({ attempt: job.attempt, meta: job.meta })
      },
    })
    const meta = { requestId: `r-${at}` }
    const { id } = await holdfast.jobs.enqueue(hold, null, { meta })
    await worker.holds(id)
    const elsewhere = new Promise<object>((resolve) => started.set(id, resolve))
    const other = holdfast.jobs.work([hold])
    await until('the other worker sleeps', async () => {
      const rows = await witness.query('select from holdfast.worker where instance = $1 and sleeping', [holdfast.id])
      return rows.length === 1
    })
    const killedAt = performance.now()
    worker.child.kill('SIGKILL')
    expect(await within(15_000, 'The takeover', elsewhere)).toEqual({ attempt: 2, meta })
    took.push(performance.now() - killedAt)
    await holdfast.jobs.result(id)
    expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'done', crashes: 1, failed: 0 })
    await other.close()
  }
  console.log(`from the kill of a worker to the takeover of its job, ${quantiles(took)}`)
})

test('a frozen worker loses its job after the expiry, and its late record is rejected', {
  timeout: 60_000,
}, async () => {
  const { url } = await openDatabase()
  const holdfast = await openInstance(url)
  const worker = await startWorker(url, { queues: ['default'] })
  const hold = defineJob('hold', { run: () => 'elsewhere' })
  const { id } = await holdfast.jobs.enqueue(hold, null)
  await worker.holds(id)
  worker.child.kill('SIGSTOP')
  const elsewhere = holdfast.jobs.work([hold])
  const from = performance.now()
  expect(await holdfast.jobs.result(id, { wait: '20s' })).toBe('elsewhere')
  expect(performance.now() - from).toBeGreaterThan(expiryMs / 4)
  worker.child.kill('SIGCONT')
  // The signal aborts and the handler throws. The worker's record is rejected, and the worker continues.
  await elsewhere.close()
  const mild = defineJob('mild', { run: () => 'not by the other process' })
  const after = await holdfast.jobs.enqueue(mild, null)
  expect(await holdfast.jobs.result(after.id, { wait: '20s' })).toBe('mild')
  await worker.close()
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'done', result: 'elsewhere', failed: 0 })
})

test('a job that kills its workers is buried, and the other jobs of its claims are not', {
  timeout: 120_000,
}, async () => {
  const { url } = await openDatabase()
  const holdfast = await openInstance(url)
  const mild = defineJob('mild', { run: () => {} })
  const poison = defineJob('poison', { run: () => {} })
  const before = await holdfast.jobs.enqueueMany(mild, new Array(5).fill(null))
  const { id } = await holdfast.jobs.enqueue(poison, null)
  const after = await holdfast.jobs.enqueueMany(mild, new Array(200).fill(null))
  for (let crash = 1; crash <= 3; crash++) {
    const worker = await startWorker(url, { queues: ['default'], concurrency: 3 })
    await within(
      20_000,
      'The crash',
      until('the worker is dead', () => worker.child.signalCode !== null, 20_000),
    )
  }
  // The worker that takes over must not run the job again.
  holdfast.jobs.work([mild, defineJob('poison', { run: () => expect.unreachable('the buried job runs again') })])
  await until('the job is buried', async () => (await holdfast.jobs.find(id))?.state === 'buried')
  const { error, failures } = (await holdfast.jobs.find(id))!
  expect(error).toMatchObject({ code: 'WORKER_CRASHED' })
  expect(failures.map(({ attempt, code }) => [attempt, code])).toEqual([1, 2, 3].map((n) => [n, 'WORKER_CRASHED']))
  expect(new Set(failures.map(({ instance }) => instance)).size).toBe(3)
  for (const job of [...before, ...after]) {
    await holdfast.jobs.result(job.id)
    expect((await holdfast.jobs.find(job.id))!.state).toBe('done')
  }
})
