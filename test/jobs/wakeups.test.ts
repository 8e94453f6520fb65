// A job wakes one idle worker. If that worker cannot run the job, another worker must be woken.
import { expect, test } from 'vitest'
import { defineJob, type Holdfast, type WorkOptions } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { anchorModes, gate, intercept, work } from './fixture.js'

/** Without a wake-up, an idle worker finds a job after several seconds with this expiry, and not after the next heartbeat. */
const expiry = '30s'
const woken = 1_000

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

const isPassOn = (text: string) => text.includes('busy_worker')

/** Waits until `count` workers sleep, and for `ms` more. The polls of a worker that has just begun to sleep are frequent. */
async function untilAsleep(url: string, count: number, ms = 4_000) {
  await until(
    `${count} workers sleep`,
    async () => (await sql(url, 'select from holdfast.worker where sleeping')).length === count,
  )
  await pause(ms)
}

/** Starts a worker that records the inputs of its jobs. A job waits for `blocked`. */
async function recording(holdfast: Holdfast, blocked?: Promise<void>, options?: WorkOptions, queue = 'default') {
  const ran: number[] = []
  const job = defineJob('job', {
    queue,
    run: (n: number) => {
      ran.push(n)
      return blocked
    },
  })
  const worker = work(holdfast, [job], options)
  await worker.ready()
  return { job, ran, worker }
}

test('a worker that gets room while it passes a wake-up on claims the next job immediately', async () => {
  const url = await databaseUrl()
  const [holdfast, other] = await Promise.all([open({ url, expiry }), open({ url, expiry })])
  const blocked = gate()
  const { job, ran } = await recording(holdfast, blocked.opened, { concurrency: 1 })
  const passed = gate()
  intercept(holdfast, async (run, text) => {
    if (!isPassOn(text)) return run()
    const result = await run()
    blocked.open()
    passed.open()
    await pause(200)
    return result
  })
  await untilAsleep(url, 1)
  await holdfast.jobs.enqueue(job, 1)
  await until('the first job runs', () => ran.length === 1)
  await other.jobs.enqueue(job, 2)
  await passed.opened
  const from = performance.now()
  await until('the second job runs', () => ran.length === 2)
  expect(performance.now() - from).toBeLessThan(600)
})

test('a worker finds a job of a new priority soon after another job, although one notification announced both', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, expiry })
  const { job, ran } = await recording(holdfast)
  await untilAsleep(url, 1)
  await holdfast.jobs.enqueue(job, 0)
  await until('the first job has run', () => ran.length === 1)
  await pause(50)
  const from = performance.now()
  // Calls in the same turn of the event loop are combined into one statement.
  await Promise.all([holdfast.jobs.enqueue(job, 1), holdfast.jobs.enqueue(job, 2, { priority: 5 })])
  await until('both jobs have run', () => ran.length === 3)
  expect(performance.now() - from).toBeLessThan(1_500)
})

test('a job whose worker closes while the job is enqueued wakes another worker', async () => {
  const url = await databaseUrl()
  const [closing, other] = await Promise.all([open({ url, expiry }), open({ url, expiry })])
  const { job, worker } = await recording(closing)
  const { ran } = await recording(other)
  await untilAsleep(url, 2)
  const committed = gate()
  const answered = gate()
  intercept(closing, async (run, text) => {
    const result = await run()
    if (text.includes('job_enqueue')) {
      committed.open()
      await answered.opened
    }
    return result
  })
  const enqueued = closing.jobs.enqueue(job, 1)
  await committed.opened
  await worker.close()
  // The closed worker has woken the other worker, which may have found the job or not.
  await pause(500)
  const from = performance.now()
  answered.open()
  await enqueued
  await until('the other worker runs the job', () => ran.length === 1)
  expect(performance.now() - from).toBeLessThan(woken)
})

test('a worker that closes passes on the wake-ups that it no longer follows', async () => {
  const url = await databaseUrl()
  const [closing, other, third] = await Promise.all([
    open({ url, expiry }),
    open({ url, expiry }),
    open({ url, expiry }),
  ])
  const { job, worker } = await recording(closing)
  const { ran } = await recording(other)
  await untilAsleep(url, 2)
  const select = (sleeps: boolean) =>
    sql(url, 'update holdfast.worker set sleeping = $1 where instance <> $2', [sleeps, closing.id])
  let enqueued: Promise<unknown> | undefined
  intercept(closing, async (run, text) => {
    if (isPassOn(text) || text.includes('delete from holdfast.worker')) {
      // The notification can only choose the worker that no longer claims, if that worker still asks for notifications.
      enqueued ??= select(false)
        .then(() => third.jobs.enqueue(job, 1))
        .then(() => select(true))
      await enqueued
    }
    return run()
  })
  const from = performance.now()
  await worker.close()
  await until('the other worker runs the job', () => ran.length === 1)
  expect(performance.now() - from).toBeLessThan(woken)
})

test('a worker that becomes full while jobs are left wakes another worker', async () => {
  const url = await databaseUrl()
  const [one, two] = await Promise.all([open({ url, expiry }), open({ url, expiry })])
  const queues = ['first', 'second']
  for (let round = 0; round < 4; round++) {
    const blocked = gate()
    const ran: string[] = []
    const jobs = queues.map((queue) =>
      defineJob(queue, {
        queue,
        run: (_: number) => {
          ran.push(queue)
          return blocked.opened
        },
      }),
    )
    const workers = [one, two].map((holdfast) => holdfast.jobs.work(jobs, { concurrency: 1 }))
    await Promise.all(workers.map((worker) => worker.ready()))
    await untilAsleep(url, 2, 2_000)
    const from = performance.now()
    await Promise.all(jobs.map((job) => one.jobs.enqueue(job, round)))
    await until('both jobs run', () => ran.length === 2)
    expect(performance.now() - from).toBeLessThan(woken)
    blocked.open()
    await Promise.all(workers.map((worker) => worker.close()))
  }
}, 60_000)

test('a worker whose claims fail passes its wake-ups on', async () => {
  const url = await databaseUrl()
  const [failing, healthy, third] = await Promise.all([
    open({ url, expiry, log: false }),
    open({ url, expiry }),
    open({ url, expiry }),
  ])
  await recording(failing)
  const { job, ran } = await recording(healthy)
  await untilAsleep(url, 2)
  let failures = 0
  intercept(failing, (run, text) => {
    if (!text.includes('holdfast.job_claim(')) return run()
    failures++
    return Promise.reject(new Error('this claim fails'))
  })
  for (let n = 1; n <= 12; n++) {
    const from = performance.now()
    await third.jobs.enqueue(job, n)
    await until('the healthy worker has run the job', () => ran.length === n)
    expect(performance.now() - from).toBeLessThan(woken)
  }
  expect(failures).toBeGreaterThan(0)
})

for (const { name, anchor } of anchorModes)
  test(`a full worker sends no statement for a follow-up of another worker, ${name}`, async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url, anchor })
    const blocked = gate()
    const { job, ran } = await recording(holdfast, blocked.opened, { concurrency: 1 }, 'blocked')
    const done: number[] = []
    const laned = defineJob('laned', { lanes: { max: 1 }, run: (n: number) => void done.push(n) })
    await work(holdfast, [laned]).ready()
    await holdfast.jobs.enqueue(job, 0)
    await until('the worker is full', () => ran.length === 1)
    let sent = 0
    intercept(holdfast, (run, text) => {
      if (isPassOn(text)) sent++
      return run()
    })
    for (let n = 0; n < 30; n++) await holdfast.jobs.enqueue(laned, n, { lane: 'a' })
    await until('all jobs have run', () => done.length === 30)
    expect(sent).toBeLessThan(2)
    blocked.open()
  })
