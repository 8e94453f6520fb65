// Tests leases behind PgBouncer in transaction mode, with fewer backends than instances. Leases need no session.
import { describe, expect, onTestFinished, test } from 'vitest'
import { Events } from '../../src/base/index.js'
import type { Holdfast } from '../../src/index.js'
import { InstanceName, openPgPool, RowPresence } from '../../src/postgres/index.js'
import { sql, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { startPooler, withoutPgBouncer } from './pgbouncer.js'

async function throughOnePooler(count: number, direct: string): Promise<Holdfast[]> {
  const pooler = await startPooler({ mode: 'transaction', backends: 2, roundRobin: true })
  const url = pooler.through(direct)
  return Promise.all(Array.from({ length: count }, () => open({ url, anchor: 'none' })))
}

async function countLeases(direct: string): Promise<number> {
  const [row] = await sql<{ count: number }>(
    direct,
    'select count(*)::integer from holdfast.lease where expires_at > clock_timestamp()',
  )
  return row!.count
}

describe.skipIf(withoutPgBouncer)('leases behind PgBouncer in transaction mode', () => {
  test('leases of five instances are granted one at a time, each with a larger fence', async () => {
    const direct = await databaseUrl()
    const instances = await throughOnePooler(5, direct)
    let inside = 0
    const fences: number[] = []
    const rounds = instances.flatMap(({ leases }) =>
      Array.from({ length: 6 }, () =>
        leases.with('name', async ({ fence }) => {
          expect(++inside).toBe(1)
          await sql(direct, 'select 1')
          fences.push(fence)
          inside--
        }),
      ),
    )
    await within(25_000, 'the rounds', Promise.all(rounds))
    expect(fences).toEqual(fences.toSorted((x, y) => x - y))
    expect(new Set(fences).size).toBe(30)
    expect(await countLeases(direct)).toBe(0)
  })

  test('leases are renewed, extended and released, and leave no locks and settings on the backends', async () => {
    const direct = await databaseUrl()
    const [a, b] = await throughOnePooler(2, direct)
    const held = await Promise.all(Array.from({ length: 50 }, (_, at) => a!.leases.acquire(`n${at}`, { ttl: '1s' })))
    const from = performance.now()
    await until('three ttls have passed', () => performance.now() - from > 3_000)
    expect(held.every((lease) => lease.held)).toBe(true)
    expect(await countLeases(direct)).toBe(50)
    expect(await b!.leases.tryAcquire('n7')).toBeNull()
    expect(await b!.leases.release('n7', 'some token')).toBe(false)
    await held[7]!.extend('10s')
    await Promise.all(held.map((lease) => lease.release()))
    await using lease = await b!.leases.acquire('n7', { wait: 0 })
    expect(lease.fence).toBeGreaterThan(held[7]!.fence)
    const locks = await sql(
      direct,
      `select from pg_locks
       where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
    )
    expect(locks).toEqual([])
    // No setting of a transaction remains on a backend.
    const settings = await sql<{ synchronous_commit: string }>(direct, 'show synchronous_commit')
    expect(settings).toEqual([{ synchronous_commit: 'on' }])
  })

  test('a lease through the pooler and a lock of a direct instance exclude each other', async () => {
    const direct = await databaseUrl()
    const [a] = await throughOnePooler(1, direct)
    const lease = await a!.leases.acquire('name')
    const other = await open({ url: direct })
    expect(await other.locks.tryAcquire('name')).toBeNull()
    await lease.release()
    await other.locks.with('name', async () => {
      expect(await a!.leases.tryAcquire('name')).toBeNull()
    })
    await (await a!.leases.acquire('name', { wait: '5s' })).release()
  })

  test('a RowPresence remains present beyond its expiry, and is absent after close', async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 2, roundRobin: true })
    const database = openPgPool({ connectionString: pooler.through(direct) })
    const presence = new RowPresence({
      database,
      schema: 'holdfast',
      namespace: 'p',
      name: new InstanceName(undefined, new Events()),
      retainDays: 7,
      expiryMs: 2_000,
      version: '0.0.0',
      events: new Events(),
    })
    onTestFinished(async () => {
      await presence.close()
      await database.close()
    })
    const epoch = await presence.whenPresent()
    const isPresent = async () =>
      (await sql<{ yes: boolean }>(direct, 'select holdfast.is_present($1) as yes', [epoch.number]))[0]!.yes
    const from = performance.now()
    await until('the expiry has passed', () => performance.now() - from > 2_500)
    expect(epoch.trusted).toBe(true)
    expect(await isPresent()).toBe(true)
    await presence.close()
    expect(await isPresent()).toBe(false)
  })
})
