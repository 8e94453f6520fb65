import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defineJob, LockTimeoutError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { heldLocks, untilNoLocks, untilWaiting } from '../setup/locking.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function beginTransaction() {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  return client
}

describe.each(['required', 'none'] as const)('locks.inTransaction with anchor: %s', (anchor) => {
  test.each([
    ['exclusive', 'exclusive', false],
    ['exclusive', 'shared', false],
    ['shared', 'exclusive', false],
    ['shared', 'shared', true],
  ] as const)('%s and %s at the same time: %s', async (held, requested, both) => {
    const { locks } = await open({ url: fresh.url, anchor })
    const [one, other] = [await beginTransaction(), await beginTransaction()]
    const name = `${anchor} ${held} ${requested}`
    const first = await locks.inTransaction(one, name, { mode: held })
    expect(first).toMatchObject({ name, names: [name], mode: held })
    expect((await locks.tryInTransaction(other, name, { mode: requested })) !== null).toBe(both)
    if (!both) {
      const error = await caught(LockTimeoutError, locks.inTransaction(other, name, { mode: requested, wait: 20 }))
      expect(error).toMatchObject({ lock: name, retryable: true })
      expect(await locks.tryInTransaction(other, name, { mode: requested, wait: 20 })).toBeNull()
    }
    const waiting = locks.inTransaction(other, name, { mode: requested })
    if (!both) await untilWaiting(fresh.url, locks.key(name))
    await one.query('commit')
    expect((await waiting).fence).toBeGreaterThan(first.fence)
    await other.query('rollback')
    await untilNoLocks(fresh.url)
  })
})

test('a transaction lock excludes session locks of the same name', async () => {
  const { locks } = await open({ url: fresh.url })
  const client = await beginTransaction()
  await locks.inTransaction(client, 'both kinds')
  expect(await locks.tryAcquire('both kinds')).toBeNull()
  await client.query('commit')
  await using _lock = await locks.acquire('both kinds', { wait: 0 })
  await client.query('begin')
  expect(await locks.tryInTransaction(client, 'both kinds')).toBeNull()
})

test('a wait that times out keeps the transaction usable, its other locks and its lock_timeout', async () => {
  const { locks } = await open({ url: fresh.url })
  await using _held = await locks.acquire('runs out')
  const client = await beginTransaction()
  await client.query("set local lock_timeout = '1234ms'")
  await locks.inTransaction(client, 'kept', { wait: '1s' })
  await caught(LockTimeoutError, locks.inTransaction(client, 'runs out', { wait: 20 }))
  expect((await client.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '1234ms' }])
  expect(await locks.tryAcquire('kept')).toBeNull()
  await client.query('commit')
  expect((await client.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '0' }])
})

test('the wait of a request for several names limits the total time', async () => {
  const { locks } = await open({ url: fresh.url })
  const names = ['first in order', 'second in order'].sort((a, b) =>
    Number(BigInt(locks.key(a)) - BigInt(locks.key(b))),
  )
  const [first, second] = await Promise.all(names.map((name) => locks.acquire(name)))
  const client = await beginTransaction()
  const startedAt = performance.now()
  const failing = caught(LockTimeoutError, locks.inTransaction(client, names, { wait: 800 }))
  await until('700 ms have passed', () => performance.now() - startedAt > 700)
  await first!.release()
  await failing
  // If each name had the full wait, the request would take at least 1500 ms.
  expect(performance.now() - startedAt).toBeLessThan(1_400)
  await second!.release()
})

test('a wait that times out leaves no savepoint open', async () => {
  const { locks } = await open({ url: fresh.url })
  await using _held = await locks.acquire('nested')
  const client = await beginTransaction()
  await caught(LockTimeoutError, locks.inTransaction(client, 'nested', { wait: 20 }))
  await expect(client.query('release savepoint holdfast')).rejects.toThrow('does not exist')
})

test('a wait without a limit ignores the lock_timeout of the transaction', async () => {
  const { locks } = await open({ url: fresh.url })
  const held = await locks.acquire('no limit')
  const client = await beginTransaction()
  await client.query("set local lock_timeout = '50ms'")
  const waiting = locks.inTransaction(client, 'no limit')
  await untilWaiting(fresh.url, held.keys[0]!)
  const begin = performance.now()
  await expect.poll(() => performance.now() - begin).toBeGreaterThan(150)
  await held.release()
  await waiting
  expect((await client.query('show lock_timeout')).rows).toEqual([{ lock_timeout: '50ms' }])
})

test('a request for several names locks all of them or none', async () => {
  const { locks } = await open({ url: fresh.url })
  await using _held = await locks.acquire('busy')
  const client = await beginTransaction()
  const names = ['free 1', 'busy', 'free 2', 'free 3']
  expect(await locks.tryInTransaction(client, names)).toBeNull()
  await caught(LockTimeoutError, locks.inTransaction(client, names, { wait: 20 }))
  for (const name of names) expect(await heldLocks(fresh.url, locks.key(name))).toBe(name === 'busy' ? 1 : 0)
  const all = await locks.inTransaction(client, ['free 3', 'free 1'])
  expect(all).toMatchObject({ name: 'free 3, free 1', names: ['free 3', 'free 1'] })
  expect(await heldLocks(fresh.url, locks.key('free 1'))).toBe(1)
})

test('a refused request keeps no lock, even if the name is leased during the request', async () => {
  const url = await databaseUrl()
  const { locks, leases } = await open({ url })
  // The check for leases is slow, so that a lease can be granted between the check and the next step.
  await sql(
    url,
    `alter function holdfast.leased_keys(bigint[]) rename to leased_keys_now;
     create function holdfast.leased_keys(keys bigint[]) returns bigint[] language plpgsql as $$
     declare found bigint[] := holdfast.leased_keys_now(keys);
     begin
       perform pg_sleep(0.5);
       return found;
     end $$`,
  )
  const client = await sqlSession(url)
  await client.query('begin')
  const trying = locks.tryInTransaction(client, 'leased meanwhile')
  const sleeps = "select from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
  await until('the check sleeps', async () => (await sql(url, sleeps)).length === 1)
  const lease = await leases.tryAcquire('leased meanwhile')
  const lock = await trying
  expect([lock, lease].filter((holder) => holder !== null)).toHaveLength(1)
  expect(await heldLocks(url, locks.key('leased meanwhile'))).toBe(lock ? 1 : 0)
  await client.query('rollback')
})

describe('calls at the same time on one transaction', () => {
  test('a refused request for several names does not undo a job that was enqueued meanwhile', async () => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    const job = defineJob('enqueued next to a refused request', { run: () => {} })
    await using _held = await b.locks.acquire('busy meanwhile')
    const client = await beginTransaction()
    const [lock] = await Promise.all([
      a.locks.tryInTransaction(client, ['busy meanwhile', 'other'], { wait: 50 }),
      a.jobs.enqueue(job, null, { tx: client }),
    ])
    await client.query('commit')
    expect(lock).toBeNull()
    expect(await sql(fresh.url, 'select from holdfast.job')).toHaveLength(1)
  })

  test('a refused request for several names does not release the names of another request', async () => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    await using _held = await b.locks.acquire('busy next to it')
    const client = await beginTransaction()
    const [granted, refused] = await Promise.all([
      a.locks.tryInTransaction(client, ['granted 1', 'granted 2'], { wait: 50 }),
      a.locks.tryInTransaction(client, ['busy next to it', 'other'], { wait: 50 }),
    ])
    expect(granted).not.toBeNull()
    expect(refused).toBeNull()
    expect(await a.locks.tryAcquire('granted 1')).toBeNull()
    await client.query('rollback')
  })

  test('a call inside the work of once.inTransaction does not wait for the end of the work', async () => {
    const { locks, once } = await open({ url: fresh.url })
    const client = await beginTransaction()
    const run = (key: string) =>
      once.inTransaction(client, key, () => locks.tryInTransaction(client, [`${key} 1`, `${key} 2`], { wait: 50 }))
    const answers = await Promise.all([run('work one'), run('work two')])
    for (const answer of answers) expect(answer).toMatchObject({ status: 'done', value: { mode: 'exclusive' } })
    await client.query('commit')
  })
})

test('a rollback to a savepoint of the caller releases the locks that were acquired after it', async () => {
  const { locks } = await open({ url: fresh.url })
  const client = await beginTransaction()
  await client.query('savepoint mine')
  await locks.inTransaction(client, 'after a savepoint', { wait: '1s' })
  expect(await heldLocks(fresh.url, locks.key('after a savepoint'))).toBe(1)
  await client.query('rollback to mine')
  expect(await heldLocks(fresh.url, locks.key('after a savepoint'))).toBe(0)
  await client.query('commit')
})

describe('outside a transaction', () => {
  test.each<[string, Parameters<Awaited<ReturnType<typeof open>>['locks']['tryInTransaction']>[2]]>([
    ['one name', {}],
    ['one name', { wait: 50 }],
    ['several names', {}],
    ['several names', { wait: 50 }],
  ])('a request for %s with the options %j is refused, and leaves no lock', async (many, options) => {
    const { locks } = await open({ url: fresh.url })
    const client = await sqlSession(fresh.url)
    const names = many === 'one name' ? ['outside'] : ['outside', 'another']
    const error = await caught(UsageError, locks.tryInTransaction(client, names, options))
    expect(error.message).toContain('Expected an open transaction, got')
    await untilNoLocks(fresh.url)
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  })

  test.each([undefined, null, {}, 'client', 5])('locks.inTransaction refuses %j as a client', async (client) => {
    const { locks } = await open({ url: fresh.url })
    const error = await caught(UsageError, locks.inTransaction(client as never, 'name'))
    expect(error.message).toContain('Expected an open transaction, got')
  })
})

test('locks.inTransaction refuses the option signal', async () => {
  const { locks } = await open({ url: fresh.url })
  const client = await beginTransaction()
  const { signal } = new AbortController()
  const error = await caught(UsageError, locks.inTransaction(client, 'name', { signal } as never))
  expect(error.message).toContain('has no option "signal"')
})

test('locks.inTransaction adds its names to the registry of names', async () => {
  const { locks } = await open({ url: fresh.url, namespace: 'registry' })
  const client = await beginTransaction()
  await locks.inTransaction(client, ['tx name', 'tx name 2'])
  const reader = await sqlSession(fresh.url)
  await until('both names are registered', async () => {
    const { rows } = await reader.query(
      "select from holdfast.name where namespace = 'registry' and label in ('tx name', 'tx name 2')",
    )
    return rows.length === 2
  })
})
