// Measures schedules with default settings: one tick per second on five instances, as the handlers report their runs; 2,000 schedules on three
// instances, spread over the minute or all due at the same time; and the cost of 2,000 schedules while none is due.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Holdfast, type ScheduleOptions } from 'holdfast'
import { type Options, percentile } from './measure.ts'
import type { RunReport } from './schedules/member.ts'
import { benchDatabase, query } from './server.ts'
import { table } from './table.ts'

const program = fileURLToPath(new URL('./schedules/member.ts', import.meta.url))
const many = 2_000

interface Fleet {
  what: string
  instances: number
  schedules: [name: string, options: ScheduleOptions][]
  settleMs: number
}

export interface FleetResult {
  what: string
  runs: number
  duplicates: number
  gaps: number
  p50Ms: number | undefined
  p99Ms: number | undefined
  transactionsPerSecond: number
  runsPerSecond: number
}

const fleets: Fleet[] = [
  { what: 'every second, 5 instances', instances: 5, schedules: [['each second', { every: '1s' }]], settleMs: 2_000 },
  {
    what: `${many} per minute, spread over it, 3 instances`,
    instances: 3,
    schedules: Array.from({ length: many }, (_, at) => [`spread ${at}`, { cron: `${at % 60} * * * * *` }]),
    settleMs: 8_000,
  },
  {
    what: `${many} every 10 s, at the same moment, 3 instances`,
    instances: 3,
    schedules: Array.from({ length: many }, (_, at) => [`burst ${at}`, { every: '10s' }]),
    settleMs: 8_000,
  },
  {
    what: `${many}, none of them due, 3 instances`,
    instances: 3,
    schedules: Array.from({ length: many }, (_, at) => [`idle ${at}`, { cron: '0 0 1 1 *' }]),
    settleMs: 8_000,
  },
]

export async function run(_: string, { roundMs, progress }: Options) {
  const ms = Math.max(20_000, roundMs)
  const outcomes: FleetResult[] = []
  for (const fleet of fleets) {
    progress(`schedules: ${fleet.what}`)
    const database = await benchDatabase()
    try {
      outcomes.push(await measure(database.url, fleet, ms))
    } finally {
      await database.close()
    }
  }
  return { seconds: ms / 1_000, outcomes }
}

/** Starts a fleet, and measures how late its ticks run, and the duplicate and missing ticks. Each fleet has its own database. */
export async function measure(
  url: string,
  { what, instances, schedules, settleMs }: Fleet,
  ms: number,
): Promise<FleetResult> {
  // This instance creates the schema before the members start.
  const operator = await Holdfast.open({ url })
  const reports: RunReport[] = []
  const members = await Promise.all(
    Array.from({ length: instances }, async () => {
      const child = fork(program, [url])
      child.send(schedules)
      await once(child, 'message')
      child.on('message', (run: RunReport) => reports.push(run))
      return child
    }),
  )
  await sleep(settleMs)
  reports.length = 0
  const before = await usage(url)
  await sleep(ms)
  const after = await usage(url)
  const runs = [...reports]
  // Counts the ticks that occurred during the measurement.
  const [settled] = await query(
    url,
    `select
       (select coalesce(sum(ticks), 0)::int from holdfast.gap where last_at > $1) as gaps,
       (select count(*)::int from holdfast.tick where at > $1 and at <= $2) as runs`,
    [before.at, after.at],
  )
  for (const child of members) child.kill('SIGKILL')
  await Promise.all(members.map((child) => child.exitCode ?? child.signalCode ?? once(child, 'exit')))
  await operator.close()
  const late = runs.map((run) => run.late)
  const ticks = new Set(runs.map(({ name, tick }) => `${name} ${tick}`))
  const seconds = (after.at - before.at) / 1_000
  return {
    what,
    runs: runs.length,
    duplicates: runs.length - ticks.size,
    gaps: settled.gaps,
    p50Ms: late.length > 0 ? percentile(late, 50) : undefined,
    p99Ms: late.length > 0 ? percentile(late, 99) : undefined,
    transactionsPerSecond: (after.transactions - before.transactions) / seconds,
    runsPerSecond: settled.runs / seconds,
  }
}

async function usage(url: string) {
  const [row] = await query(
    url,
    `select clock_timestamp() as at, xact_commit::float8 as transactions
     from pg_stat_database
     where datname = current_database()`,
  )
  return row
}

export function show({ seconds, outcomes }: Awaited<ReturnType<typeof run>>) {
  const round = (value: number | undefined) => value && Number(value.toFixed(1))
  return table(
    [
      `Schedules, ${seconds} s each`,
      'runs',
      'duplicates',
      'gaps',
      'late p50 ms',
      'late p99 ms',
      'runs/s',
      'transactions/s',
    ],
    outcomes.map(({ what, runs, duplicates, gaps, p50Ms, p99Ms, runsPerSecond, transactionsPerSecond }) => [
      what,
      runs,
      duplicates,
      gaps,
      round(p50Ms),
      round(p99Ms),
      round(runsPerSecond),
      round(transactionsPerSecond),
    ]),
  )
}
