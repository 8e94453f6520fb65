// An idle instance costs the database fewer than one statement every two seconds, as the database itself counts them.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Holdfast } from '../../src/holdfast.js'
import { sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const watchMs = 21_000

interface Spent {
  calls: number
  ms: number
  /** Pages looked at: what a statement asks of the database, however slow the machine is. */
  pages: number
}

/** What has been run in this database, but for our own looking. */
async function spent(url: string): Promise<Spent> {
  const [row] = await sql<Spent>(
    url,
    `select coalesce(sum(calls), 0)::integer as calls, coalesce(sum(total_exec_time), 0) as ms,
            coalesce(sum(shared_blks_hit + shared_blks_read), 0)::integer as pages
     from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database())
       and query not like '%pg_stat_statements%'`,
  )
  return row!
}

const idlers: Record<string, (instance: Holdfast) => Promise<unknown>> = {
  'never asked for anything': async () => {},
  'has done its work': (instance) => instance.locks.with(['one', 'two'], () => {}),
  'holds locks': (instance) => instance.locks.acquire(['one', 'two']),
}

async function watch(
  use: (instance: Holdfast) => Promise<unknown>,
): Promise<{ perSecond: number; meanMs: number; meanPages: number }> {
  const url = await databaseUrl()
  await use(await open({ url }))
  // What opening and using set going is not idling: the sweep, the note of a lock that is held for long.
  await sleep(5_000)
  const before = await spent(url)
  const from = performance.now()
  // The time itself is what is measured here.
  await sleep(watchMs)
  const after = await spent(url)
  const calls = after.calls - before.calls
  return {
    perSecond: (calls / (performance.now() - from)) * 1_000,
    meanMs: (after.ms - before.ms) / calls,
    meanPages: (after.pages - before.pages) / calls,
  }
}

test('an idle instance costs fewer than one statement every two seconds', { timeout: 60_000 }, async () => {
  const costs = await Promise.all(Object.entries(idlers).map(async ([what, use]) => ({ what, ...(await watch(use)) })))
  for (const { what, perSecond, meanMs, meanPages } of costs) {
    console.info(
      `An instance that ${what}: ${perSecond.toFixed(2)} statements/s of ${meanMs.toFixed(3)} ms, ${meanPages.toFixed(0)} pages`,
    )
    // The heartbeats are seen, so the counting works.
    expect(perSecond).toBeGreaterThan(0.2)
    expect(perSecond).toBeLessThan(0.5)
    expect(meanPages).toBeLessThan(20)
  }
})
