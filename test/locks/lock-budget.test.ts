// Uses a server with a small lock table. Holdfast must stop before the table is full, because a full table fails all sessions of the server.

import { expect, test } from 'vitest'
import { type Lock, LockTableFullError } from '../../src/index.js'
import { caught, sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { ownServer } from '../setup/own-server.js'

test('acquire fails with LockTableFullError before the lock table is full, and succeeds again after releases', async () => {
  const server = await ownServer({ fsync: 'off', max_locks_per_transaction: '10', max_connections: '20' })
  const { locks } = await open({ url: server.url })
  const budget = 10 * 20
  // Holdfast counts the locks in the table once per 16 grants.
  const step = 16
  const held: Lock[] = []
  const fill = async () => {
    for (let i = 0; i < 1_000; i++) held.push(await locks.acquire(`name ${held.length}`))
  }
  const error = await caught(LockTableFullError, fill())
  expect(error).toMatchObject({ code: 'LOCK_TABLE_FULL', retryable: true, budget })
  expect(error.inUse).toBeGreaterThan(budget / 2)
  expect(error.inUse).toBeLessThanOrEqual(budget + step)
  expect(error.hint).toContain('max_locks_per_transaction')
  expect(held.length).toBeGreaterThan(budget / 2)
  expect(held.length).toBeLessThanOrEqual(budget + step)

  const columns = Array.from({ length: 5 }, (_, at) => `create table other_${at} (id integer primary key)`)
  await sql(server.url, `begin; ${columns.join('; ')}; commit`)
  const many = Array.from({ length: 100 }, (_, at) => `bulk ${at}`)
  await caught(LockTableFullError, locks.acquire(many))
  expect(await locks.tryAcquire(held[0]!.name)).toBeNull()

  await Promise.all(held.map((lock) => lock.release()))
  await until('the locks are released', async () => {
    const [row] = await sql<{ count: number }>(
      server.url,
      "select count(*)::int from pg_locks where locktype = 'advisory'",
    )
    return row!.count < 10
  })
  const all = await locks.acquire(many)
  expect(all.keys).toHaveLength(100)
  await all.release()
})
