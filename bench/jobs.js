// Jobs, with default settings: what goes through (enqueue, claim, run, complete, history kept), also while a snapshot
// elsewhere is forgotten, and beside the same statements in plain SQL; what it writes; how long a job waits when nothing else
// is to do; how many are enqueued; what a backlog does to a claim; what idle workers cost.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { besides, showBesides } from './jobs/besides.js'
import { plainLoops } from './jobs/plain.js'
import { loops, median, percentile } from './measure.js'
import { benchDatabase, query } from './server.js'
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
  progress('jobs: beside plain SQL')
  const beside = await onOwnServer((url) => besidePlain(url, { rounds, seconds: Math.max(2, roundMs / 1_000) }))
  progress('jobs: latency and enqueueing')
  const enqueued = await onOwnServer(enqueueing)
  return { seconds, sustained, beside, ...enqueued, ...(await besides(progress)) }
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

const noop = defineJob('noop', { run() {} })
const inputs = Array.from({ length: 1_000 }, (_, at) => ({ at }))

/**
 * Enqueues while it is told to go on, and keeps a backlog before the workers. Two statements are under way: with one, the
 * producer gets a smaller part of the machine with each worker, who then wait for it.
 */
async function produce(holdfast, done, goesOn) {
  let enqueued = 0
  const before = done()
  const loop = async () => {
    while (goesOn()) {
      if (enqueued - (done() - before) > backlog) await sleep(2)
      else {
        enqueued += inputs.length
        await holdfast.jobs.enqueueMany(noop, inputs)
      }
    }
  }
  await Promise.all([loop(), loop()])
  return before + enqueued
}

const written = `
select
  (pg_current_wal_insert_lsn() - '0/0')::float8 as wal,
  coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 as dead
from pg_stat_user_tables
where schemaname = 'holdfast'`

/** Keeps a backlog before the workers and counts what reaches the history. */
async function sustain(url, { claims, workers, isSnapshotOpen, seconds }) {
  const holdfast = await Holdfast.open({ url })
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  if (isSnapshotOpen) {
    await client.query('begin isolation level repeatable read')
    await client.query('select count(*) from holdfast.job')
  }
  const { done, stop } = await startWorkers(url, workers, claims)
  let isOver = false
  const [before] = await query(url, written)
  const producer = produce(holdfast, done, () => !isOver)
  const samples = []
  let warm
  for (const from = performance.now(); performance.now() - from < seconds * 1_000 + 1_500; ) {
    await sleep(100)
    if (warm === undefined && performance.now() - from > 1_500) warm = performance.now()
    if (warm !== undefined) samples.push({ at: performance.now(), done: done() })
  }
  isOver = true
  const enqueued = await producer
  while (done() < enqueued) await sleep(10)
  // Sessions tell what they did when they have been idle for a moment.
  await sleep(1_500)
  const [after] = await query(url, written)
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
    walBytes: Math.round((after.wal - before.wal) / enqueued),
    deadRows: Number(((after.dead - before.dead) / enqueued).toFixed(2)),
  }
  await stop()
  await client.end()
  await holdfast.close()
  return outcome
}

/** One worker, and plain SQL, in turns on one server; each turn to the end of what it enqueued. */
async function besidePlain(url, { rounds, seconds }) {
  const holdfast = await Holdfast.open({ url })
  const { done, stop } = await startWorkers(url, 1, 'rows')
  const plain = await plainLoops(url, backlog)
  const ours = []
  const theirs = []
  for (let round = -1; round < rounds; round++) {
    const from = { at: performance.now(), done: done() }
    const enqueued = await produce(holdfast, done, () => performance.now() - from.at < seconds * 1_000)
    while (done() < enqueued) await sleep(2)
    const perSecond = ((done() - from.done) / (performance.now() - from.at)) * 1_000
    const plainPerSecond = await plain.slice(seconds)
    // The first is to get warm.
    if (round < 0) continue
    ours.push(perSecond)
    theirs.push(plainPerSecond)
  }
  await stop()
  await plain.close()
  await holdfast.close()
  return {
    perSecond: Math.round(median(ours)),
    plainPerSecond: Math.round(median(theirs)),
    ratio: Number(median(ours.map((rate, round) => rate / theirs[round])).toPrecision(3)),
  }
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
  const many = Array.from({ length: 5_000 }, (_, at) => ({ at }))
  const bulks = []
  for (let round = 0; round < 5; round++) {
    bulks.push((await loops(1, 600, () => producer.jobs.enqueueMany(bulk, many))).perSecond * many.length)
  }
  await Promise.all([producer.close(), consumer.close()])
  return {
    latency: { p50Ms: percentile(waits, 50), p99Ms: percentile(waits, 99) },
    singlesPerSecond: Math.round(median(singles)),
    bulkPerSecond: Math.round(median(bulks)),
  }
}

export function show(report) {
  const { seconds, sustained, beside, latency, singlesPerSecond, bulkPerSecond } = report
  return [
    table(
      [
        `Sustained for ${seconds} s, everything counted: batches of ${inputs.length}, ${backlog.toLocaleString('en')} before the workers`,
        'jobs/s',
        'first quarter',
        'last quarter',
        'last/first',
        'WAL bytes/job',
        'dead rows/job',
      ],
      sustained.map(({ claims, workers, isSnapshotOpen, perSecond, first, last, walBytes, deadRows }) => [
        `${claims}: ${workers} worker${workers > 1 ? 's' : ''}${isSnapshotOpen ? ', a snapshot forgotten elsewhere' : ''}`,
        perSecond,
        first,
        last,
        Number((last / first).toFixed(2)),
        walBytes,
        deadRows,
      ]),
    ),
    table(
      ['Jobs', 'figure', 'goal'],
      [
        ['jobs/s of one worker, in turns with plain SQL', beside.perSecond, ''],
        ['jobs/s of the same statements in plain SQL', beside.plainPerSecond, ''],
        ['of what plain SQL reaches', beside.ratio, '≥ 0.5'],
        ['enqueue to start, idle, p50 ms', Number(latency.p50Ms.toFixed(2)), '2–3'],
        ['enqueue to start, idle, p99 ms', Number(latency.p99Ms.toFixed(2)), ''],
        ['single enqueues, 32 at once, per second', singlesPerSecond, '≥ 20,000'],
        ['bulk enqueue, jobs per second', bulkPerSecond, ''],
        ...showBesides(report),
      ],
    ),
  ].join('\n\n')
}
