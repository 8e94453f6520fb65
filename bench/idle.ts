// Measures the cost of an idle fleet: four processes, each with a worker, with default settings. The server counts the statements.
import { setTimeout as sleep } from 'node:timers/promises'
import { contestants, present } from './jobs/contestants.ts'
import { type Fixture, less, withFixture } from './jobs/fixture.ts'
import type { Options } from './measure.ts'
import { installPeers } from './peers/install.ts'
import { query } from './server.ts'
import { type Cell, table } from './table.ts'

const processes = 4
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
  return { processes, idle, absent }
}

export interface Idle {
  statementsPerSecond: number | undefined
  serverMsPerSecond: number | undefined
  connections: number | undefined
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
  const [before, from] = [await usage(), performance.now()]
  await sleep(measureMs)
  const after = await usage()
  const seconds = (performance.now() - from) / 1_000
  const { onRedis } = contestants[name]!
  const [row] = onRedis ? [{}] : await query(url, connections)
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

export function show({ processes, idle, absent }: Awaited<ReturnType<typeof run>>) {
  const rows: Cell[][] = Object.entries(idle).map(([name, one]) => [
    name,
    one.statementsPerSecond,
    one.serverMsPerSecond,
    one.connections,
  ])
  for (const [name, why] of Object.entries(absent).filter(([name]) => fleet.includes(name)))
    rows.push([`${name}: ${why}`])
  return table(
    [`${processes} idle processes and the bench process`, 'statements/s', 'server ms/s', 'connections'],
    rows,
  )
}
