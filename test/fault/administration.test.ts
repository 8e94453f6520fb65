import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { sqlSession } from '../setup/facts.js'
import { isInHurry } from '../setup/variants.js'
import { Load } from './load.js'

// What administrators and their tools do to tables while the fleet works.

/** How long a tool keeps a table for itself. */
const heldMs = 2_000
/** Those that are used all the time. */
const busy = [
  'job',
  'waiting',
  'job_history_default',
  'lane',
  'unique_job',
  'name',
  'lease',
  'limit_state',
  'permit',
  'delivery',
  'tick',
]
const tables = busy.map((name) => `holdfast.${name}`)

const unhurried = test.skipIf(isInHurry)

unhurried('VACUUM FULL, ANALYZE, REINDEX and CREATE INDEX CONCURRENTLY', { timeout: 240_000 }, async () => {
  const load = await Load.begin()
  const admin = await sqlSession(load.url)
  const calm = await load.calm()
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
  console.info(`During that, of ${tables.length} tables, the slowest took, in ms: ${JSON.stringify(slowest)}`)
  expect(Math.max(...Object.values(slowest))).toBeLessThan(1_000 + 3 * calm)
  await load.goesOn()
  await load.endsWell()
})

unhurried('tables are locked for a while by somebody else', { timeout: 240_000 }, async () => {
  const load = await Load.begin()
  const tool = await sqlSession(load.url)
  const calm = await load.calm()
  // All at once: the longest that a tool which takes one after the other could make anybody wait.
  await tool.query(`begin; lock table ${tables.join(', ')} in access exclusive mode`)
  await sleep(heldMs)
  await tool.query('commit')
  await load.goesOn()
  const slowest = load.takeSlowest()
  console.info(`They were locked for ${heldMs} ms: the slowest took, in ms: ${JSON.stringify(slowest)}`)
  expect(Math.max(...Object.values(slowest))).toBeLessThan(heldMs + 1_000 + 3 * calm)
  await load.endsWell()
})

unhurried('a snapshot stays open, and autovacuum can remove nothing', { timeout: 240_000 }, async () => {
  const load = await Load.begin()
  const calm = await load.calm()
  const forgotten = await sqlSession(load.url)
  await forgotten.query('begin isolation level repeatable read; select txid_current()')
  for (let round = 0; round < 3; round++) await load.goesOn()
  const slowest = load.takeSlowest()
  console.info(`With an open snapshot the slowest took, in ms: ${JSON.stringify(slowest)}`)
  expect(Math.max(...Object.values(slowest))).toBeLessThan(1_000 + 3 * calm)
  await forgotten.query('commit')
  await load.endsWell()
})
