// Tests how many connections an instance uses: when it is idle, at work, and at most.
import pg from 'pg'
import { expect, test } from 'vitest'
import { defineJob, type Holdfast, type HoldfastOptions } from '../../src/index.js'
import { gate, sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

/** A pool closes a connection after 10 s without use. */
const idleWithinMs = 25_000

async function connections(url: string): Promise<number> {
  const [row] = await sql<{ count: number }>(
    url,
    `select count(*)::integer as count
     from pg_stat_activity
     where datname = current_database() and application_name like 'holdfast%'`,
  )
  return row!.count
}

/** Starts everything that an instance does when it waits for work. */
async function startIdling(holdfast: Holdfast): Promise<void> {
  holdfast.schedules.add('yearly', { cron: '0 0 1 1 *' }, () => {})
  await holdfast.jobs.work([defineJob('idle', { run: () => {} })]).ready()
}

test.each<[string, Partial<HoldfastOptions>, number]>([
  ['its anchor', {}, 1],
  ['one for its renewals and one for its polls without an anchor', { anchor: 'none' }, 2],
])('an idle instance uses one connection for %s', { timeout: 60_000 }, async (_, options, count) => {
  const url = await databaseUrl()
  await startIdling(await open({ url, ...options }))
  await until(`${count} connections are open`, async () => (await connections(url)) <= count, idleWithinMs)
})

test('an instance uses at most one connection, poolSize, twice poolSize for transactions, and waitConnections', async () => {
  const url = await databaseUrl()
  const [holder, holdfast] = [await open({ url }), await open({ url, poolSize: 2, waitConnections: 3 })]
  const before = await connections(url)
  const finish = gate()
  const { database } = holdfast.context
  const statements = Array.from({ length: 20 }, () => database.query('select pg_sleep(1)'))
  const transactions = Array.from({ length: 20 }, () => database.transaction(() => finish.opened))
  const names = Array.from({ length: 10 }, (_, at) => `contended ${at}`)
  const held = await holder.locks.acquire(names)
  const waiting = names.map((name) => holdfast.locks.acquire(name))
  // The anchor and one connection of the pool are already open.
  await until('all connections are open', async () => (await connections(url)) >= before - 1 + 2 + 4 + 3)
  expect(await connections(url)).toBe(before - 1 + 2 + 4 + 3)
  finish.open()
  await held.release()
  await Promise.all([...statements, ...transactions])
  for (const lock of await Promise.all(waiting)) await lock.release()
})

test('poolSize is refused for a pool of the program', async () => {
  const pool = new pg.Pool({ connectionString: await databaseUrl() })
  await expect(open({ pool, poolSize: 2 })).rejects.toThrow('Expected no poolSize together with pool')
  await pool.end()
})
