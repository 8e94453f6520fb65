// A lease and a lock of the same name exclude each other, in both orders and for all methods that acquire them.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Holdfast, LockTimeoutError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { heldLocks, untilNoLocks } from '../setup/locking.js'
import { leaseRow, letExpire } from './rows.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function pair(where: string): Promise<[Holdfast, Holdfast]> {
  const first = await open({ url: fresh.url, namespace: where })
  return [first, where === 'one instance' ? first : await open({ url: fresh.url, namespace: where })]
}

const beginTransaction = async () => {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  return client
}

describe.each(['two instances', 'one instance'])('locks and leases of %s', (where) => {
  test.each(['exclusive', 'shared'] as const)(
    'a leased name cannot be locked (%s), and no lock remains on the server',
    async (mode) => {
      const [a, b] = await pair(where)
      const lease = await a.leases.acquire(`leased ${mode}`)
      for (const options of [{ mode }, { mode, wait: 30 }]) {
        expect(await b.locks.tryAcquire(lease.name, options)).toBeNull()
        expect(await b.locks.tryAcquire([`free ${mode}`, lease.name], options)).toBeNull()
      }
      await caught(LockTimeoutError, b.locks.acquire(lease.name, { mode, wait: 30 }))
      await untilNoLocks(fresh.url)
      await lease.release()
      await using lock = await b.locks.acquire(lease.name, { mode, wait: 0 })
      expect(lock.fence).toBeGreaterThan(lease.fence)
    },
  )

  test.each(['exclusive', 'shared'] as const)('a locked name (%s) cannot be leased', async (mode) => {
    const [a, b] = await pair(where)
    const lock = await a.locks.acquire(`locked ${mode}`, { mode })
    expect(await b.leases.tryAcquire(lock.name)).toBeNull()
    expect(await b.leases.tryAcquire(lock.name, { wait: 30 })).toBeNull()
    expect(await leaseRow(fresh.url, lock.keys[0]!)).toBeUndefined()
    await lock.release()
    await using lease = await b.leases.acquire(lock.name, { wait: 0 })
    expect(lease.fence).toBeGreaterThan(lock.fence)
  })

  test('a waiter for a lock gets it when the lease is released or expires', async () => {
    const [a, b] = await pair(where)
    for (const end of ['released', 'expired']) {
      const lease = await a.leases.acquire(end)
      const waiting = b.locks.acquire(end)
      const reading = b.locks.acquire(end, { mode: 'shared' })
      const both = b.locks.acquire([end, `another name, ${end}`])
      await until(
        'pg_locks can be read',
        async () => (await sql(fresh.url, 'select from pg_locks where objsubid = 1')).length >= 0,
      )
      if (end === 'released') await lease.release()
      else await letExpire(fresh.url, lease.key)
      const lock = await within(5_000, 'the grant', waiting)
      expect(lock.fence).toBeGreaterThan(lease.fence)
      await lock.release()
      await (await within(5_000, 'the grant to the reader', reading)).release()
      await (await within(5_000, 'the grant of both names', both)).release()
    }
    await untilNoLocks(fresh.url)
  })

  test('a waiter for a lease gets it when the lock is released', async () => {
    const [a, b] = await pair(where)
    const lock = await a.locks.acquire('handed on')
    const waiting = b.leases.acquire('handed on')
    expect(await b.leases.tryAcquire('handed on', { wait: 50 })).toBeNull()
    await lock.release()
    await using lease = await within(5_000, 'the grant', waiting)
    expect(lease.fence).toBeGreaterThan(lock.fence)
  })

  test('concurrent locks and leases of one name are granted one after the other', async () => {
    const [a, b] = await pair(where)
    let inside = 0
    const fences: number[] = []
    const work = async ({ fence }: { fence: number }) => {
      expect(++inside).toBe(1)
      await sql(fresh.url, 'select 1')
      fences.push(fence)
      inside--
    }
    const rounds = Array.from({ length: 24 }, async (_, at) => {
      const instance = at % 2 ? a : b
      if (at % 3 === 0) return instance.locks.with('mixed', work)
      if (at % 3 === 1) return instance.leases.with('mixed', work)
      const client = await beginTransaction()
      await work(await instance.locks.inTransaction(client, 'mixed', { wait: '20s' }))
      await client.query('commit')
    })
    await within(25_000, 'the rounds', Promise.all(rounds))
    expect(fences).toEqual(fences.toSorted((x, y) => x - y))
  })
})

describe('locks and leases in a transaction of the caller', () => {
  test('a leased name cannot be locked in a transaction, which remains usable and has no locks', async () => {
    const [a] = await pair('transactions')
    const lease = await a.leases.acquire('leased')
    const client = await beginTransaction()
    expect(await a.locks.tryInTransaction(client, 'leased')).toBeNull()
    expect(await a.locks.tryInTransaction(client, ['free', 'leased'])).toBeNull()
    expect(await a.locks.tryInTransaction(client, 'leased', { wait: 60 })).toBeNull()
    await caught(LockTimeoutError, a.locks.inTransaction(client, ['free', 'leased'], { wait: 60 }))
    for (const name of ['free', 'leased']) expect(await heldLocks(fresh.url, a.locks.key(name))).toBe(0)
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    const waiting = a.locks.inTransaction(client, ['free', 'leased'], { wait: '10s' })
    await lease.release()
    const lock = await within(5_000, 'the grant', waiting)
    expect(lock.fence).toBeGreaterThan(lease.fence)
    expect(await a.leases.tryAcquire('leased')).toBeNull()
    await client.query('rollback')
    await using _lease = await a.leases.acquire('leased', { wait: '5s' })
  })

  test('a name that is locked in a transaction cannot be leased until the transaction ends', async () => {
    const [a, b] = await pair('transactions')
    const client = await beginTransaction()
    const lock = await a.locks.inTransaction(client, 'in transaction', { mode: 'shared' })
    expect(await b.leases.tryAcquire('in transaction')).toBeNull()
    const waiting = b.leases.acquire('in transaction')
    await client.query('commit')
    await using lease = await within(5_000, 'the grant', waiting)
    expect(lease.fence).toBeGreaterThan(lock.fence)
  })

  test('a session of plain SQL that holds the key excludes a lease', async () => {
    const [a] = await pair('sql')
    const client = await sqlSession(fresh.url)
    await client.query("select pg_advisory_lock(holdfast.lock_key('sql', 'by hand'))")
    expect(await a.leases.tryAcquire('by hand')).toBeNull()
    await client.query("select pg_advisory_unlock(holdfast.lock_key('sql', 'by hand'))")
    await using _lease = await a.leases.acquire('by hand', { wait: 0 })
  })
})

test('a request that waits for a leased name does not hold its other names', async () => {
  const [a, b] = await pair('several')
  const lease = await a.leases.acquire('leased')
  const free = ['f1', 'f2', 'f3', 'f4'].filter((name) => BigInt(a.locks.key(name)) > BigInt(lease.key))
  const waiting = b.locks.acquire(['leased', ...free])
  await until('each free name can be locked', async () => {
    for (const name of free) await (await a.locks.acquire(name, { wait: '5s' })).release()
    return true
  })
  await lease.release()
  await (await within(10_000, 'the grant', waiting)).release()
})

test('a lease of an instance without an anchor excludes locks of an instance with an anchor', async () => {
  const [a] = await pair('no anchor')
  const b = await open({ url: fresh.url, namespace: 'no anchor', anchor: 'none' })
  const lease = await b.leases.acquire('name')
  expect(await a.locks.tryAcquire('name')).toBeNull()
  await lease.release()
  const lock = await a.locks.acquire('name', { wait: 0 })
  expect(await b.leases.tryAcquire('name')).toBeNull()
  await lock.release()
  await (await b.leases.acquire('name', { wait: 0 })).release()
})

test('no lock remains after the tests', async () => {
  await untilNoLocks(fresh.url)
})
