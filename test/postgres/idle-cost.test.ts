// Tests that an idle instance runs fewer than one statement every two seconds, and that few of many instances act at a tick, as counted
// by the database.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import type { EmbeddedServer } from '../../src/embedded/index.js'
import { defineJob, type Holdfast } from '../../src/index.js'
import { sql } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { ownServer } from '../setup/own-server.js'
import { runsAll } from '../setup/variants.js'

const watchMs = 21_000

interface StatementCost {
  statement: string
  calls: number
  ms: number
  /** Pages that the statement has accessed. This number does not depend on the speed of the machine. */
  pages: number
}

/** Returns the cost of each statement that was run in this database, except the queries of this test. */
async function statementCosts(url: string): Promise<Map<string, StatementCost>> {
  const rows = await sql<StatementCost>(
    url,
    `select queryid::text as statement, sum(calls)::integer as calls, sum(total_exec_time) as ms,
            sum(shared_blks_hit + shared_blks_read)::integer as pages
     from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database())
       and query not like '%pg_stat_statements%'
     group by queryid`,
  )
  return new Map(rows.map((row) => [row.statement, row]))
}

/** Returns the cost of the statements between two readings. */
function between(before: Map<string, StatementCost>, after: Map<string, StatementCost>): StatementCost[] {
  const none = { calls: 0, ms: 0, pages: 0 }
  return [...after.values()].map((now) => {
    const then = before.get(now.statement) ?? none
    return { ...now, calls: now.calls - then.calls, ms: now.ms - then.ms, pages: now.pages - then.pages }
  })
}

function sumOf(all: StatementCost[], what: 'calls' | 'ms' | 'pages'): number {
  return all.reduce((sum, one) => sum + one[what], 0)
}

const idlers: Record<string, (instance: Holdfast) => Promise<unknown>> = {
  'has never done anything': async () => {},
  'has done its work': (instance) => instance.locks.with(['one', 'two'], () => {}),
  'has a worker and a schedule': async (instance) => {
    const schedule = instance.schedules.add('yearly', { cron: '0 0 1 1 *' }, () => {})
    const worker = instance.jobs.work([defineJob('idle', { run: () => {} })])
    await Promise.all([schedule.ready(), worker.ready()])
  },
  'holds locks': (instance) => instance.locks.acquire(['one', 'two']),
}

async function watch(
  server: EmbeddedServer,
  name: string,
  use: (instance: Holdfast) => Promise<unknown>,
): Promise<{ perSecond: number; meanMs: number; meanPages: number }> {
  const url = await server.createDatabase(name, { template: inject('preparedServer').templateName })
  await use(await open({ url }))
  // Work that the opening and the use have started is not idling: the sweep, and the record of a lock that is held for long.
  await sleep(5_000)
  const before = await statementCosts(url)
  const from = performance.now()
  // The test measures this time itself.
  await sleep(watchMs)
  const all = between(before, await statementCosts(url))
  // A statement that runs for the first time also reads the catalogs, so it is not counted.
  const again = all.filter(({ calls }) => calls > 1)
  return {
    perSecond: (sumOf(all, 'calls') / (performance.now() - from)) * 1_000,
    meanMs: sumOf(all, 'ms') / sumOf(all, 'calls'),
    meanPages: sumOf(again, 'pages') / sumOf(again, 'calls'),
  }
}

test.skipIf(!runsAll)(
  'an idle instance costs fewer than one statement every two seconds',
  { timeout: 60_000 },
  async () => {
    // A separate server: other tests create and drop databases all the time, which makes every session read its catalogs again.
    const server = await ownServer({ fsync: 'off', shared_preload_libraries: 'pg_stat_statements' })
    const costs = await Promise.all(
      Object.entries(idlers).map(async ([what, use], at) => ({ what, ...(await watch(server, `idle_${at}`, use)) })),
    )
    for (const { what, perSecond, meanMs, meanPages } of costs) {
      console.info(
        `An instance that ${what}: ${perSecond.toFixed(2)} statements/s of ${meanMs.toFixed(3)} ms, ${meanPages.toFixed(0)} pages`,
      )
      // The heartbeats are counted, so the counting works.
      expect(perSecond).toBeGreaterThan(0.2)
      expect(perSecond).toBeLessThan(0.5)
      // The look of a worker reads the indexes of its queue's partitions, and all small tables that may contain work.
      expect(meanPages).toBeLessThan(what.startsWith('has a worker') ? 200 : 20)
    }
  },
)

test.skipIf(!runsAll)('at most three of twelve instances claim a tick', { timeout: 60_000 }, async () => {
  const server = await ownServer({ fsync: 'off', shared_preload_libraries: 'pg_stat_statements' })
  const url = await server.createDatabase('ticks', { template: inject('preparedServer').templateName })
  const ticks: number[] = []
  const claims = async () => {
    const [row] = await sql<{ calls: number }>(
      url,
      "select coalesce(sum(calls), 0)::integer as calls from pg_stat_statements where query like '%schedule_claim(%'",
    )
    return row!.calls
  }
  for (let at = 0; at < 12; at++) {
    const { schedules } = await open({ url })
    await schedules.add('each second', { every: '1s' }, ({ tick }) => void ticks.push(tick.getTime())).ready()
  }
  // Within one heartbeat, all instances know how many they are.
  await sleep(4_000)
  const [before, from] = [await claims(), ticks.length]
  await sleep(10_000)
  const [after, to] = [await claims(), ticks.length]
  console.info(`${((after - before) / (to - from)).toFixed(2)} claims per tick`)
  expect(new Set(ticks).size).toBe(ticks.length)
  expect(to - from).toBeGreaterThanOrEqual(8)
  expect((after - before) / (to - from)).toBeLessThan(4)
})
