import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { sql, sqlSession } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { Load } from './load.js'

// Maintenance that administrators and their tools do on tables while the fleet is working.

/** Time for which a tool locks the tables. */
const lockedMs = 2_000
/** Tables that all operations use. Of a partitioned table, all its partitions. */
const busy = [
  'job',
  'job_end',
  'waiting',
  'lane',
  'unique_job',
  'name',
  'lease',
  'limit_state',
  'permit',
  'delivery',
  'tick',
]

async function tablesOf(url: string): Promise<string[]> {
  const rows = await sql<{ name: string }>(
    url,
    `select coalesce(leaf.relid, root)::regclass::text as name
     from unnest($1::regclass[]) as root left join lateral pg_partition_tree(root) as leaf on leaf.isleaf`,
    [busy.map((name) => `holdfast.${name}`)],
  )
  return rows.map(({ name }) => name)
}

test.skipIf(!runsAll)(
  'operations continue during VACUUM FULL, ANALYZE, REINDEX and CREATE INDEX CONCURRENTLY',
  { timeout: 240_000 },
  async () => {
    const load = await Load.start()
    const admin = await sqlSession(load.url)
    const tables = await tablesOf(load.url)
    const undisturbed = await load.slowestUndisturbed()
    for (const table of tables) {
      await admin.query(`vacuum (full, analyze) ${table}`)
      await admin.query(`reindex table concurrently ${table}`)
      const [{ attname }] = (
        await admin.query(`select attname from pg_attribute where attrelid = '${table}'::regclass and attnum = 1`)
      ).rows
      await admin.query(`create index concurrently soaked on ${table} (${attname})`)
      await admin.query('drop index concurrently holdfast.soaked')
    }
    const slowest = load.takeSlowest()
    console.info(
      `During the maintenance of ${tables.length} tables. Slowest operations, in ms: ${JSON.stringify(slowest)}`,
    )
    expect(Math.max(...Object.values(slowest))).toBeLessThan(1_000 + 3 * undisturbed)
    await load.continues()
    await load.finishes()
  },
)

test.skipIf(!runsAll)(
  'operations wait while another session locks their tables, and then continue',
  { timeout: 240_000 },
  async () => {
    const load = await Load.start()
    const tool = await sqlSession(load.url)
    const tables = await tablesOf(load.url)
    const undisturbed = await load.slowestUndisturbed()
    // Locks all tables at the same time. A tool that locks one table after the other makes operations wait for a shorter time.
    await tool.query(`begin; lock table ${tables.join(', ')} in access exclusive mode`)
    await sleep(lockedMs)
    await tool.query('commit')
    await load.continues()
    const slowest = load.takeSlowest()
    console.info(`All tables were locked for ${lockedMs} ms. Slowest operations, in ms: ${JSON.stringify(slowest)}`)
    expect(Math.max(...Object.values(slowest))).toBeLessThan(lockedMs + 1_000 + 3 * undisturbed)
    await load.finishes()
  },
)

test.skipIf(!runsAll)(
  'operations stay fast while an open snapshot keeps autovacuum from removing rows',
  { timeout: 240_000 },
  async () => {
    const load = await Load.start()
    const undisturbed = await load.slowestUndisturbed()
    const reader = await sqlSession(load.url)
    await reader.query('begin isolation level repeatable read; select txid_current()')
    for (let round = 0; round < 3; round++) await load.continues()
    const slowest = load.takeSlowest()
    console.info(`With an open snapshot. Slowest operations, in ms: ${JSON.stringify(slowest)}`)
    expect(Math.max(...Object.values(slowest))).toBeLessThan(1_000 + 3 * undisturbed)
    await reader.query('commit')
    await load.finishes()
  },
)
