// Measures how cost grows with the number of instances, held locks, due jobs, and schedules. Only Holdfast is measured, with default settings.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Idle, measureIdle } from './idle.ts'
import { growing } from './jobs/backlog.ts'
import { type Fixture, withFixture } from './jobs/fixture.ts'
import { growingLocks } from './locks/growing.ts'
import type { Options } from './measure.ts'
import { type FleetResult, measure } from './schedules.ts'
import { benchDatabase, query } from './server.ts'
import { table } from './table.ts'

const fleets = [1, 2, 4, 8, 16, 32]
const held = [10, 100, 1_000, 3_000, 10_000]
const backlogs = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
const schedules = [10, 100, 1_000, 5_000]
const scheduleMs = 20_000
const singles = 100
/** The default of 100 connections is too low for 32 instances that start at the same time. */
const server = { settings: { max_connections: '400' } }

const claimedAfter = `
select count(*)::integer as ended,
  percentile_cont(0.5) within group (order by ms) as "p50Ms",
  percentile_cont(0.99) within group (order by ms) as "p99Ms"
from (select extract(epoch from claimed_at - enqueued_at)::float8 * 1000 as ms from holdfast.job_history) as waited`

export async function run(_: string, { progress }: Options) {
  const instances: (Awaited<ReturnType<typeof fleet>> & { count: number })[] = []
  for (const count of fleets) {
    progress(`growth: ${count} instances`)
    instances.push({ count, ...(await withFixture('holdfast', (fixture) => fleet(fixture, count), server)) })
  }
  const locks = await growingLocks(held, progress)
  const jobs = await growing(backlogs, progress)
  const ticks: (FleetResult & { count: number })[] = []
  for (const count of schedules) {
    progress(`growth: ${count} schedules`)
    ticks.push({ count, ...(await ticking(count)) })
  }
  return { instances, locks, jobs, ticks }
}

/**
 * Starts `count` processes, each with an idle worker. Measures their cost, and how long single jobs wait for a worker according to the
 * server's clock.
 */
async function fleet(fixture: Fixture, count: number): Promise<Idle & { p50Ms: number; p99Ms: number }> {
  const idle = await measureIdle(fixture, { count })
  for (let at = 1; at <= singles; at++) {
    await sleep(30 + Math.random() * 30)
    await fixture.queue.enqueue({ at })
  }
  for (;;) {
    const [{ ended, ...wait }] = await query(fixture.url, claimedAfter)
    if (ended > singles) return { ...idle, ...wait }
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
      ['Idle instances with a worker', 'statements/s', 'server ms/s', 'connections', 'enqueue to claim, p50 ms', 'p99'],
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
      ['Locks held', 'acquired/s', 'acquire + release, p50 ms', 'pairs/s, 64 callers'],
      locks.map((one) => [one.count, one.code ?? one.perSecond, one.p50Ms, one.pairsPerSecond]),
    ),
    table(
      ['Jobs due', 'claim of 10 jobs, ms', 'jobs/s of one worker'],
      jobs.map((one) => [one.count, one.claimMs, one.perSecond]),
    ),
    table(
      [
        'Schedules with one tick per minute, 3 instances',
        'runs',
        'duplicates',
        'gaps',
        'late p50 ms',
        'p99',
        'transactions/s',
      ],
      ticks.map((one) => [
        one.count,
        one.runs,
        one.duplicates,
        one.gaps,
        short(one.p50Ms),
        short(one.p99Ms),
        short(one.transactionsPerSecond),
      ]),
    ),
  ].join('\n\n')
}
