// Measures the cost of an idle fleet: four processes, each with a worker, with default settings; and of many instances that have the same
// schedule. The server counts the statements.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast } from 'holdfast'
import { contestants, present } from './jobs/contestants.ts'
import { type Fixture, less, withFixture } from './jobs/fixture.ts'
import type { Options } from './measure.ts'
import { installPeers } from './peers/install.ts'
import { query } from './server.ts'
import { type Cell, table } from './table.ts'

const processes = 4
/** Number of instances that have the same schedule, which ticks once per second. */
const members = 150
/** Time for pools to close their idle connections. */
const restMs = 15_000
const measureMs = 20_000

const fleet = [
  'holdfast',
  'graphile-worker, defaults',
  'pg-boss, defaults',
  'BullMQ on PostgreSQL, defaults',
  'BullMQ on Redis, defaults',
]

export async function run(_: string, { progress }: Options) {
  const { names, absent } = present()
  installPeers(progress)
  const idle: Record<string, Idle> = {
    'holdfast, opened only': await withFixture('holdfast', (fixture) => measureIdle(fixture, { works: false })),
  }
  for (const name of fleet.filter((one) => names.includes(one))) {
    progress(`idle: ${name}`)
    idle[name] = await withFixture(name, (fixture) => measureIdle(fixture))
  }
  progress(`idle: ${members} instances with a schedule`)
  const ticking = await withFixture('holdfast', measureTicking, { settings: { max_connections: '400' } })
  return { processes, idle, ticking, absent }
}

export interface Idle {
  statementsPerSecond: number | undefined
  serverMsPerSecond: number | undefined
  connections: number | undefined
}

/** Measures the cost of instances that have one schedule per second and nothing else to do. All instances are in this process. */
async function measureTicking({ url, usage }: Fixture): Promise<Idle & { ticks: number; runs: number }> {
  const runs: number[] = []
  const fleet: Holdfast[] = []
  for (let at = 0; at < members; at++) {
    const one = await Holdfast.open({ url, log: false })
    one.schedules.add('each second', { every: '1s' }, ({ tick }) => void runs.push(tick.getTime()))
    fleet.push(one)
  }
  await sleep(restMs)
  runs.length = 0
  const cost = await measureCost(url, usage)
  const outcome = { ...cost, ticks: new Set(runs).size, runs: runs.length }
  await Promise.all(fleet.map((one) => one.close()))
  return outcome
}

/** Measures the cost of `count` idle processes and of the bench process. */
export async function measureIdle(
  { name, url, queue, workers, usage }: Fixture,
  { works = true, count = processes } = {},
): Promise<Idle> {
  const crew = await workers({ count })
  if (works) {
    crew.begin()
    await queue.enqueue({ at: 0 })
  }
  await sleep(restMs)
  const { onRedis } = contestants[name]!
  return await measureCost(onRedis ? undefined : url, usage)
}

/** Without a URL, the connections are not counted. */
async function measureCost(url: string | undefined, usage: Fixture['usage']): Promise<Idle> {
  const [before, from] = [await usage(), performance.now()]
  await sleep(measureMs)
  const after = await usage()
  const seconds = (performance.now() - from) / 1_000
  const [row] = url === undefined ? [{}] : await query(url, connections)
  const rate = (total: number | undefined) =>
    total !== undefined && Number.isFinite(total) ? Number((total / seconds).toPrecision(3)) : undefined
  return {
    statementsPerSecond: rate(less(after.statements, before.statements)),
    serverMsPerSecond: rate(less(after.cpuMs, before.cpuMs)),
    connections: row.count,
  }
}

const connections = `
select count(*)::integer as count from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`

export function show({ processes, idle, ticking, absent }: Awaited<ReturnType<typeof run>>) {
  const rows: Cell[][] = Object.entries(idle).map(([name, one]) => [
    name,
    one.statementsPerSecond,
    one.serverMsPerSecond,
    one.connections,
  ])
  for (const [name, why] of Object.entries(absent).filter(([name]) => fleet.includes(name)))
    rows.push([`${name}: ${why}`])
  return [
    table([`${processes} idle processes and the bench process`, 'statements/s', 'server ms/s', 'connections'], rows),
    table(
      ['Instances with one schedule per second', 'statements/s', 'server ms/s', 'connections', 'ticks', 'runs'],
      [
        [
          members,
          ticking.statementsPerSecond,
          ticking.serverMsPerSecond,
          ticking.connections,
          ticking.ticks,
          ticking.runs,
        ],
      ],
    ),
  ].join('\n\n')
}
