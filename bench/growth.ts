// How cost grows: with the fleet, with what is held, with what waits, with what is scheduled. Holdfast alone, defaults throughout.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Idle, watch } from './idle.ts'
import { growing } from './jobs/backlog.ts'
import { type Fixture, withFixture } from './jobs/fixture.ts'
import { growingLocks } from './locks/growing.ts'
import type { Options } from './measure.ts'
import { type Measured, measure } from './schedules.ts'
import { benchDatabase, query } from './server.ts'
import { table } from './table.ts'

const fleets = [1, 2, 4, 8, 16, 32]
const held = [10, 100, 1_000, 3_000, 10_000]
const backlogs = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
const schedules = [10, 100, 1_000, 5_000]
const scheduleMs = 20_000
const singles = 100
/** By default 100 may connect, which 32 instances that start together use up. */
const roomForAll = { settings: { max_connections: '400' } }

const claimedAfter = `
select count(*)::integer as ended,
  percentile_cont(0.5) within group (order by ms) as "p50Ms",
  percentile_cont(0.99) within group (order by ms) as "p99Ms"
from (select extract(epoch from claimed_at - enqueued_at)::float8 * 1000 as ms from holdfast.job_history) as waited`

export async function run(_: string, { progress }: Options) {
  const instances: (Awaited<ReturnType<typeof fleet>> & { count: number })[] = []
  for (const count of fleets) {
    progress(`growth: ${count} instances`)
    instances.push({ count, ...(await withFixture('holdfast', (stage) => fleet(stage, count), roomForAll)) })
  }
  const locks = await growingLocks(held, progress)
  const jobs = await growing(backlogs, progress)
  const ticks: (Measured & { count: number })[] = []
  for (const count of schedules) {
    progress(`growth: ${count} schedules`)
    ticks.push({ count, ...(await ticking(count)) })
  }
  return { instances, locks, jobs, ticks }
}

/** So many processes, each with an idle worker, and how long single jobs wait for one of them by the clock of the server. */
async function fleet(stage: Fixture, count: number): Promise<Idle & { p50Ms: number; p99Ms: number }> {
  const idle = await watch(stage, { count })
  for (let at = 1; at <= singles; at++) {
    await sleep(30 + Math.random() * 30)
    await stage.queue.enqueue({ at })
  }
  for (;;) {
    const [{ ended, ...waited }] = await query(stage.url, claimedAfter)
    if (ended > singles) return { ...idle, ...waited }
    await sleep(100)
  }
}

async function ticking(count: number) {
  const secondOf = (at: number) => Math.floor((at * Math.max(1, 60 / count)) % 60)
  const database = await benchDatabase()
  try {
    return await measure(
      database.url,
      {
        what: `${count} schedules`,
        instances: 3,
        schedules: Array.from({ length: count }, (_, at) => [`spread ${at}`, { cron: `${secondOf(at)} * * * * *` }]),
        settleMs: 8_000,
      },
      scheduleMs,
    )
  } finally {
    await database.close()
  }
}

const short = (value: number | undefined) => value && Number(value.toPrecision(3))

export function show({ instances, locks, jobs, ticks }: Awaited<ReturnType<typeof run>>) {
  return [
    table(
      [
        'Idle instances with a worker',
        'statements/s',
        'server ms/s',
        'connections',
        'a job is claimed after p50 ms',
        'p99',
      ],
      instances.map((one) => [
        one.count,
        one.statementsPerSecond,
        one.serverMsPerSecond,
        one.connections,
        short(one.p50Ms),
        short(one.p99Ms),
      ]),
    ),
    table(
      ['Locks held', 'acquired/s', 'a pair beside them, p50 ms', 'pairs/s, 64 at once'],
      locks.map((one) => [one.count, one.code ?? one.perSecond, one.p50Ms, one.pairsPerSecond]),
    ),
    table(
      ['Jobs due', 'a claim of ten, ms', 'jobs/s of one worker'],
      jobs.map((one) => [one.count, one.claimMs, one.perSecond]),
    ),
    table(
      ['Schedules of a minute, 3 instances', 'runs', 'doubles', 'gaps', 'late p50 ms', 'p99', 'transactions/s'],
      ticks.map((one) => [
        one.count,
        one.runs,
        one.doubles,
        one.gaps,
        short(one.p50Ms),
        short(one.p99Ms),
        short(one.transactionsPerSecond),
      ]),
    ),
  ].join('\n\n')
}
