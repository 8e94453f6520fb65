// A lease and a lock of one name exclude each other, whoever comes first and however it is asked for.
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

const begun = async () => {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  return client
}

describe.each(['two instances', 'one instance'])('between %s', (where) => {
  test.each(['exclusive', 'shared'] as const)(
    'a leased name is no lock’s (%s), and nothing is left on the server',
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

  test.each(['exclusive', 'shared'] as const)('a locked name (%s) is no lease', async (mode) => {
    const [a, b] = await pair(where)
    const lock = await a.locks.acquire(`locked ${mode}`, { mode })
    expect(await b.leases.tryAcquire(lock.name)).toBeNull()
    expect(await b.leases.tryAcquire(lock.name, { wait: 30 })).toBeNull()
    expect(await leaseRow(fresh.url, lock.keys[0]!)).toBeUndefined()
    await lock.release()
    await using lease = await b.leases.acquire(lock.name, { wait: 0 })
    expect(lease.fence).toBeGreaterThan(lock.fence)
  })

  test('who waits for a lock gets it when the lease is released, and when it expires', async () => {
    const [a, b] = await pair(where)
    for (const end of ['released', 'expired']) {
      const lease = await a.leases.acquire(end)
      const waiting = b.locks.acquire(end)
      const reading = b.locks.acquire(end, { mode: 'shared' })
      const both = b.locks.acquire([end, `beside ${end}`])
      await until(
        'it has tried',
        async () => (await sql(fresh.url, 'select from pg_locks where objsubid = 1')).length >= 0,
      )
      if (end === 'released') await lease.release()
      else await letExpire(fresh.url, lease.key)
      const lock = await within(5_000, 'The grant', waiting)
      expect(lock.fence).toBeGreaterThan(lease.fence)
      await lock.release()
      await (await within(5_000, 'The grant to the reader', reading)).release()
      await (await within(5_000, 'The grant of both', both)).release()
    }
    await untilNoLocks(fresh.url)
  })

  test('who waits for a lease gets it when the lock is released', async () => {
    const [a, b] = await pair(where)
    const lock = await a.locks.acquire('handed on')
    const waiting = b.leases.acquire('handed on')
    expect(await b.leases.tryAcquire('handed on', { wait: 50 })).toBeNull()
    await lock.release()
    await using lease = await within(5_000, 'The grant', waiting)
    expect(lease.fence).toBeGreaterThan(lock.fence)
  })

  test('many who lock and lease one name are alone, one after the other', async () => {
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
      const client = await begun()
      await work(await instance.locks.inTransaction(client, 'mixed', { wait: '20s' }))
      await client.query('commit')
    })
    await within(25_000, 'All rounds', Promise.all(rounds))
    expect(fences).toEqual(fences.toSorted((x, y) => x - y))
  })
})

describe('in the caller’s transaction', () => {
  test('a leased name is not granted, and leaves nothing in the transaction, which can go on', async () => {
    const [a] = await pair('transactions')
    const lease = await a.leases.acquire('leased')
    const client = await begun()
    expect(await a.locks.tryInTransaction(client, 'leased')).toBeNull()
    expect(await a.locks.tryInTransaction(client, ['free', 'leased'])).toBeNull()
    expect(await a.locks.tryInTransaction(client, 'leased', { wait: 60 })).toBeNull()
    await caught(LockTimeoutError, a.locks.inTransaction(client, ['free', 'leased'], { wait: 60 }))
    for (const name of ['free', 'leased']) expect(await heldLocks(fresh.url, a.locks.key(name))).toBe(0)
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    const waiting = a.locks.inTransaction(client, ['free', 'leased'], { wait: '10s' })
    await lease.release()
    const lock = await within(5_000, 'The grant', waiting)
    expect(lock.fence).toBeGreaterThan(lease.fence)
    expect(await a.leases.tryAcquire('leased')).toBeNull()
    await client.query('rollback')
    await using _lease = await a.leases.acquire('leased', { wait: '5s' })
  })

  test('a name that is locked there is no lease until the transaction ends', async () => {
    const [a, b] = await pair('transactions')
    const client = await begun()
    const lock = await a.locks.inTransaction(client, 'in transaction', { mode: 'shared' })
    expect(await b.leases.tryAcquire('in transaction')).toBeNull()
    const waiting = b.leases.acquire('in transaction')
    await client.query('commit')
    await using lease = await within(5_000, 'The grant', waiting)
    expect(lease.fence).toBeGreaterThan(lock.fence)
  })

  test('plain SQL that holds the key excludes a lease, too', async () => {
    const [a] = await pair('sql')
    const client = await sqlSession(fresh.url)
    await client.query("select pg_advisory_lock(holdfast.lock_key('sql', 'by hand'))")
    expect(await a.leases.tryAcquire('by hand')).toBeNull()
    await client.query("select pg_advisory_unlock(holdfast.lock_key('sql', 'by hand'))")
    await using _lease = await a.leases.acquire('by hand', { wait: 0 })
  })
})

test('of two names, one leased, the other is not kept from anybody while the first is waited for', async () => {
  const [a, b] = await pair('several')
  const lease = await a.leases.acquire('leased')
  const free = ['f1', 'f2', 'f3', 'f4'].filter((name) => BigInt(a.locks.key(name)) > BigInt(lease.key))
  const waiting = b.locks.acquire(['leased', ...free])
  await until('each of them can be had', async () => {
    for (const name of free) await (await a.locks.acquire(name, { wait: '5s' })).release()
    return true
  })
  await lease.release()
  await (await within(10_000, 'The grant', waiting)).release()
})

test('without an anchor, a lease excludes the locks of those who have one', async () => {
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

test('in the end nothing is left', async () => {
  await untilNoLocks(fresh.url)
})
