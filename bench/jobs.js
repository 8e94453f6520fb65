// Jobs, with default settings: what goes through (enqueue, claim, run, complete, history kept), also while a snapshot
// elsewhere is forgotten; how long a job waits when nothing else is to do; how many are enqueued.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { loops, median, percentile } from './measure.js'
import { benchDatabase } from './server.js'
import { table } from './table.js'

const program = fileURLToPath(new URL('./jobs/worker.js', import.meta.url))
const backlog = 20_000

export async function run(_, { rounds, roundMs, progress }) {
  const seconds = Math.max(8, (rounds * roundMs) / 1_000)
  const sustained = []
  for (const [workers, isSnapshotOpen] of [
    [1, false],
    [2, false],
    [1, true],
    [2, true],
  ]) {
    for (const claims of ['rows', 'advisory']) {
      progress(`jobs by ${claims}: sustained, ${workers} worker${isSnapshotOpen ? ', a forgotten snapshot' : ''}`)
      sustained.push(await onOwnServer((url) => sustain(url, { claims, workers, isSnapshotOpen, seconds })))
    }
  }
  progress('jobs: latency and enqueueing')
  return { seconds, sustained, ...(await onOwnServer(enqueueing)) }
}

async function onOwnServer(work) {
  const database = await benchDatabase()
  try {
    return await work(database.url)
  } finally {
    await database.close()
  }
}

async function startWorkers(url, count, claims) {
  const children = Array.from({ length: count }, () => fork(program, [url, claims]))
  const counts = children.map(() => 0)
  for (const [at, child] of children.entries()) {
    await once(child, 'message')
    child.on('message', (count) => {
      counts[at] = count
    })
  }
  return {
    done: () => counts.reduce((sum, count) => sum + count, 0),
    async stop() {
      for (const child of children) child.kill('SIGKILL')
      await Promise.all(children.map((child) => child.exitCode ?? once(child, 'exit')))
    },
  }
}

/** Keeps a backlog before the workers and counts what reaches the history. */
async function sustain(url, { claims, workers, isSnapshotOpen, seconds }) {
  const holdfast = await Holdfast.open({ url })
  const noop = defineJob('noop', { run() {} })
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  if (isSnapshotOpen) {
    await client.query('begin isolation level repeatable read')
    await client.query('select count(*) from holdfast.job')
  }
  const { done, stop } = await startWorkers(url, workers, claims)
  let enqueued = 0
  let isOver = false
  const inputs = Array.from({ length: 1_000 }, (_, at) => ({ at }))
  const producer = (async () => {
    while (!isOver) {
      if (enqueued - done() > backlog) await sleep(2)
      else {
        await holdfast.jobs.enqueueMany(noop, inputs)
        enqueued += inputs.length
      }
    }
  })()
  const samples = []
  let warm
  for (const from = performance.now(); performance.now() - from < seconds * 1_000 + 1_500; ) {
    await sleep(100)
    if (warm === undefined && performance.now() - from > 1_500) warm = performance.now()
    if (warm !== undefined) samples.push({ at: performance.now(), done: done() })
  }
  isOver = true
  await producer
  const rate = (part) => {
    const [first, last] = [part[0], part.at(-1)]
    return Math.round(((last.done - first.done) / (last.at - first.at)) * 1_000)
  }
  const quarter = Math.ceil(samples.length / 4)
  const outcome = {
    claims,
    workers,
    isSnapshotOpen,
    perSecond: rate(samples),
    first: rate(samples.slice(0, quarter)),
    last: rate(samples.slice(-quarter)),
  }
  await stop()
  await client.end()
  await holdfast.close()
  return outcome
}

async function enqueueing(url) {
  const [producer, consumer] = [await Holdfast.open({ url }), await Holdfast.open({ url })]
  const started = new Map()
  const quick = defineJob('quick', { queue: 'quick', run: (at) => started.get(at)?.(performance.now()) })
  const bulk = defineJob('bulk', { queue: 'bulk', run() {} })
  const worker = consumer.jobs.work([quick])
  await producer.jobs.result((await producer.jobs.enqueue(quick, -1)).id)
  const waits = []
  for (let at = 0; at < 200; at++) {
    await sleep(20 + Math.random() * 20)
    const start = new Promise((resolve) => started.set(at, resolve))
    const from = performance.now()
    await producer.jobs.enqueue(quick, at)
    waits.push((await start) - from)
  }
  await worker.close()
  const singles = []
  for (let round = 0; round < 5; round++) {
    singles.push((await loops(32, 1_000, () => producer.jobs.enqueue(bulk, { round }))).perSecond)
  }
  const inputs = Array.from({ length: 5_000 }, (_, at) => ({ at }))
  const bulks = []
  for (let round = 0; round < 5; round++) {
    bulks.push((await loops(1, 600, () => producer.jobs.enqueueMany(bulk, inputs))).perSecond * inputs.length)
  }
  await Promise.all([producer.close(), consumer.close()])
  return {
    latency: { p50Ms: percentile(waits, 50), p99Ms: percentile(waits, 99) },
    singlesPerSecond: Math.round(median(singles)),
    bulkPerSecond: Math.round(median(bulks)),
  }
}

export function show({ seconds, sustained, latency, singlesPerSecond, bulkPerSecond }) {
  return [
    table(
      [`Sustained for ${seconds} s, everything counted`, 'jobs/s', 'first quarter', 'last quarter'],
      sustained.map(({ claims, workers, isSnapshotOpen, perSecond, first, last }) => [
        `${claims}: ${workers} worker${workers > 1 ? 's' : ''}${isSnapshotOpen ? ', a snapshot forgotten elsewhere' : ''}`,
        perSecond,
        first,
        last,
      ]),
    ),
    table(
      ['Jobs', 'figure', 'goal'],
      [
        ['enqueue to start, idle, p50 ms', Number(latency.p50Ms.toFixed(2)), '2–3'],
        ['enqueue to start, idle, p99 ms', Number(latency.p99Ms.toFixed(2)), ''],
        ['single enqueues, 32 at once, per second', singlesPerSecond, '≥ 20,000'],
        ['bulk enqueue, jobs per second', bulkPerSecond, ''],
      ],
    ),
  ].join('\n\n')
}
