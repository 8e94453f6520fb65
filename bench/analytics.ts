// Measures a steady stream of jobs while analytics queries keep old snapshots open. The load is taken from
// PlanetScale's article "Keeping a Postgres queue healthy": 800 jobs per second with handlers of 10 ms, and three
// overlapping queries of 120 seconds. At least one query runs at any time, so that vacuum can never remove the newest
// dead rows. The contestants run one after the other, each on a fresh server with the same settings.
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { middle, type Outcomes, ratioOf } from './compare.ts'
import { describeContestants, present } from './jobs/contestants.ts'
import { each, type Fixture, withFixture } from './jobs/fixture.ts'
import { payloads } from './jobs/throughput.ts'
import { type Options, percentile } from './measure.ts'
import { installPeers } from './peers/install.ts'
import { query } from './server.ts'
import { type Cell, table } from './table.ts'

const queues = ['holdfast', 'graphile-worker', 'pg-boss']
const jobsPerMs = 0.8
/** Jobs are enqueued in one statement per 10 ms, because not every peer reaches 800 single enqueues per second on a small machine. */
const everyMs = 10
const handlerMs = 10
/** A queue without any delay needs only 8 concurrent jobs for this load. */
const concurrency = 32
const queries = 3
const queryMs = 120_000

const sales = 'create table sale as select n as amount from generate_series(1, 10000) as n'

/** Reads the table ten times per second with one snapshot. */
const analyze = `
select sum(part.amount)
from generate_series(1, $1::integer) as step,
  lateral (select sum(amount + step) as amount, pg_sleep(0.1) from sale) as part`

const deadRows = 'select coalesce(sum(n_dead_tup), 0)::float8 as rows from pg_stat_user_tables'

/** State at the end of a minute. Times and costs refer to the jobs that started during the minute. */
interface Minute {
  enqueued: number
  done: number
  backlog: number
  p50Ms: number
  p99Ms: number
  deadRows: number
  serverUs: number | undefined
}

export async function run(_: string, { minutes, progress }: Options) {
  const versions = installPeers(progress)
  const { names, absent } = present(queues)
  const outcomes: Outcomes<Minute> = {}
  for (const name of names) {
    outcomes[name] = await withFixture(name, (fixture) => stream(fixture, minutes, progress))
  }
  return { outcomes, described: await describeContestants(names, { versions, absent }) }
}

async function stream(fixture: Fixture, minutes: number, progress: Options['progress']) {
  const { name, url, queue, workers, usage } = fixture
  // A run of less than two minutes also has two samples.
  const sampleMs = Math.min(60_000, (minutes * 60_000) / 2)
  const crew = await workers({ handlerMs, concurrency })
  crew.begin()
  await query(url, sales)
  const stopQueries = await startQueries(url)
  const from = performance.now()
  let [enqueued, isOver] = [0, false]
  const produce = async () => {
    while (!isOver) {
      const due = Math.floor((performance.now() - from) * jobsPerMs) - enqueued
      if (due > 0) {
        enqueued += due
        const sentAt = Date.now()
        await queue.enqueueMany(payloads(due).map((payload) => ({ ...payload, sentAt })))
      }
      await sleep(everyMs)
    }
  }
  const producing = produce()
  const samples: Minute[] = []
  let before = { done: 0, enqueued: 0, cost: await usage() }
  for (let at = 1; at * sampleMs <= minutes * 60_000; at++) {
    progress(`analytics: minute ${at}: ${name}`)
    await sleep(from + at * sampleMs - performance.now())
    const after = { done: crew.done(), enqueued, cost: await usage() }
    const done = after.done - before.done
    const waits = crew.takeWaits()
    samples.push({
      enqueued: after.enqueued - before.enqueued,
      done,
      backlog: after.enqueued - after.done,
      p50Ms: percentile(waits, 50),
      p99Ms: percentile(waits, 99),
      deadRows: (await query(url, deadRows))[0].rows,
      serverUs: each(before.cost, after.cost, done, 0).serverUs,
    })
    before = after
  }
  isOver = true
  await producing
  await stopQueries()
  return samples
}

/** Starts the queries at equal distances. Starts each query again when it ends. */
async function startQueries(url: string) {
  let isOver = false
  const options = { connectionString: url, application_name: 'analytics' }
  const clients = Array.from({ length: queries }, () => new pg.Client(options))
  await Promise.all(clients.map((client) => client.connect()))
  const loops = clients.map(async (client, at) => {
    // Each client's first query is shorter, so that the queries overlap from the beginning.
    for (let ms = (queryMs * (at + 1)) / queries; !isOver; ms = queryMs) {
      await client.query(analyze, [Math.round(ms / 100)]).catch((error) => {
        if (!isOver) throw error
      })
    }
  })
  return async () => {
    isOver = true
    await query(url, `select pg_cancel_backend(pid) from pg_stat_activity where application_name = 'analytics'`)
    await Promise.all(loops)
    await Promise.all(clients.map((client) => client.end()))
  }
}

export function show({ outcomes, described }: Awaited<ReturnType<typeof run>>) {
  const tables = Object.entries(outcomes).map(([name, samples]) =>
    table(
      [`${name}, minute`, 'enqueued', 'done', 'backlog', 'p50 ms', 'p99 ms', 'dead rows', 'server µs'],
      samples.map((one, at) => [
        `${at + 1}`,
        one.enqueued,
        one.done,
        one.backlog,
        one.p50Ms,
        one.p99Ms,
        one.deadRows,
        one.serverUs,
      ]),
    ),
  )
  const rows = Object.entries(outcomes).flatMap(([name, samples]): Cell[][] => {
    const row = (figure: string, read: (one: Minute) => number | undefined, goal = '') => {
      const [first, last] = [samples.slice(0, 1), samples.slice(-1)]
      const ours = name === 'holdfast' ? goal : ''
      return [`${name}: ${figure}`, middle(first, read), middle(last, read), ratioOf(last, first, read), ours]
    }
    return [
      row('jobs done', ({ done }) => done, '≥ 0.99'),
      row('backlog', ({ backlog }) => backlog),
      row('p50 ms', ({ p50Ms }) => p50Ms, '≤ 1.2'),
      row('p99 ms', ({ p99Ms }) => p99Ms, '≤ 1.5'),
      row('dead rows', ({ deadRows }) => deadRows),
      row('server µs', ({ serverUs }) => serverUs, '≤ 1.2'),
    ]
  })
  return [
    `${described}\n${jobsPerMs * 1_000} jobs/s, enqueued every ${everyMs} ms; one worker process, ${concurrency} jobs at the same time, handlers of ${handlerMs} ms; ${queries} queries of ${queryMs / 1_000} s. One run each. Latencies are from enqueue to start; server µs include the queries.`,
    ...tables,
    table(['last minute compared with the first', 'first', 'last', 'ratio', 'goal'], rows),
  ].join('\n\n')
}
