// Tests ttl, minHold, spread, extend and guard.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LeaseLostError, StaleFenceError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { leaseRow, letExpire, takeAway } from './rows.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

describe('ttl', () => {
  test('a lease is renewed until it is released', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('renewed', { ttl: '3s' })
    const first = (await leaseRow(fresh.url, lease.key))!
    await until('the lease is renewed beyond its first ttl', async () => {
      const { leftMs, expiresAtMs } = (await leaseRow(fresh.url, lease.key))!
      expect(leftMs).toBeGreaterThan(0)
      expect(lease.held).toBe(true)
      return expiresAtMs > first.expiresAtMs + lease.ttlMs
    })
    await lease.release()
    expect(await leaseRow(fresh.url, lease.key)).toBeUndefined()
  })

  test('a lease expires during a blocked event loop, its handle shows the loss, and another holder can get the name', async () => {
    const { leases } = await open({ url: fresh.url })
    const [unobserved, observed] = await Promise.all(
      ['unobserved', 'observed'].map((name) => leases.acquire(name, { ttl: '1s' })),
    )
    const { signal } = observed!
    const from = performance.now()
    while (performance.now() - from < 1_100) Math.sqrt(2)
    expect(unobserved!.held).toBe(false)
    expect(unobserved!.signal.reason).toBeInstanceOf(LeaseLostError)
    await until('the signal is aborted', () => signal.aborted)
    await until('the name is free', async () => (await leaseRow(fresh.url, unobserved!.key))!.leftMs <= 0)
    const next = await leases.acquire('unobserved', { wait: 0 })
    expect(next.fence).toBeGreaterThan(unobserved!.fence)
    await unobserved!.release()
    expect(next.held).toBe(true)
  })
})

describe('extend', () => {
  test('extend with a longer ttl applies immediately and to later renewals', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('longer', { ttl: '1s' })
    await lease.extend('1h')
    expect(lease.ttlMs).toBe(3_600_000)
    expect((await leaseRow(fresh.url, lease.key))!.leftMs).toBeGreaterThan(3_500_000)
    const from = performance.now()
    while (performance.now() - from < 1_500) Math.sqrt(2)
    expect(lease.held).toBe(true)
  })

  test('extend with a shorter ttl does not shorten the current lease, but applies to later renewals', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('shorter', { ttl: '6s' })
    await lease.extend('3s')
    expect(lease.ttlMs).toBe(3_000)
    const granted = (await leaseRow(fresh.url, lease.key))!
    expect(granted).toMatchObject({ ttlMs: 3_000 })
    expect(granted.leftMs).toBeGreaterThan(3_000)
    await until('the lease is renewed with the shorter ttl', async () => {
      const { leftMs, expiresAtMs } = (await leaseRow(fresh.url, lease.key))!
      if (expiresAtMs > granted.expiresAtMs) expect(leftMs).toBeLessThanOrEqual(3_000)
      return expiresAtMs > granted.expiresAtMs
    })
    expect(lease.held).toBe(true)
  })

  test('extend of a revoked lease rejects and aborts the signal', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('taken away')
    const { signal } = lease
    await takeAway(fresh.url, lease.key)
    const error = await caught(LeaseLostError, lease.extend())
    expect(error).toMatchObject({ lease: 'taken away', fence: lease.fence, code: 'LEASE_LOST', retryable: true })
    expect(signal.aborted).toBe(true)
    expect(lease.held).toBe(false)
    await caught(LeaseLostError, lease.extend())
  })

  test('200 concurrent calls of extend need only a few statements', async () => {
    const { leases } = await open({ url: fresh.url })
    const all = await Promise.all(Array.from({ length: 200 }, (_, at) => leases.acquire(`many ${at}`)))
    const before = await renewals()
    await Promise.all(all.map((lease) => lease.extend('1m')))
    expect((await renewals()) - before).toBeLessThan(5)
    for (const lease of all) expect(lease.ttlMs).toBe(60_000)
  })

  test('extend refuses a released lease and an invalid ttl', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('mistakes')
    expect((await caught(UsageError, lease.extend('10ms'))).message).toBe(
      'Expected the ttl of lease.extend to be a duration of at least 1s and at most 24d, got "10ms" (string)',
    )
    await lease.release()
    expect((await caught(UsageError, lease.extend())).message).toBe(
      'Expected extend to be called on a held lease, got a released lease',
    )
  })
})

async function renewals(): Promise<number> {
  const [row] = await sql<{ calls: number }>(
    fresh.url,
    `select coalesce(sum(calls), 0)::integer as calls
     from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database())
       and query like '%update holdfast.lease%greatest(lease.expires_at%'`,
  )
  return row!.calls
}

describe('minHold', () => {
  test('a released name cannot be leased or locked until minHold has passed since the grant', async () => {
    const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
    const lease = await a.leases.acquire('held on', { minHold: '1500ms' })
    const from = performance.now()
    await lease.release()
    expect(await b.leases.tryAcquire('held on')).toBeNull()
    expect(await b.locks.tryAcquire('held on')).toBeNull()
    await using next = await within(8_000, 'the end of minHold', b.leases.acquire('held on'))
    expect(performance.now() - from).toBeGreaterThan(1_000)
    expect(next.fence).toBeGreaterThan(lease.fence)
  })

  test('a name is free at the release if minHold has already passed', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('long work', { minHold: '1h' })
    await sql(fresh.url, "update holdfast.lease set granted_at = granted_at - interval '1 h' where key = $1", [
      lease.key,
    ])
    await lease.release()
    await using _next = await leases.acquire('long work', { wait: 0 })
  })

  test('the same token does not get the name until minHold has passed', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('own', { minHold: '1h', token: 'mine' })
    await lease.release()
    expect(await leases.tryAcquire('own', { token: 'mine' })).toBeNull()
  })

  test('minHold does not apply if the lease expired, because the holder died', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('died', { minHold: '1h' })
    await letExpire(fresh.url, lease.key)
    await using _next = await leases.acquire('died', { wait: 0 })
  })
})

describe('spread', () => {
  test('a request with spread starts after a random time', async () => {
    const { leases } = await open({ url: fresh.url })
    // The first statement also opens a connection. On a busy machine this takes longer than the spread, and all requests would be granted after it.
    await leases.acquire('before')
    const from = performance.now()
    const took = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        await leases.acquire(`spread ${at}`, { spread: '500ms' })
        return performance.now() - from
      }),
    )
    took.sort((x, y) => x - y)
    // The probability that all 20 random times differ by less than 100 ms is negligible.
    expect(took.at(-1)! - took[0]!).toBeGreaterThan(100)
    expect(took.at(-1)!).toBeLessThan(5_000)
  })

  test('a request that waits for its spread rejects if its signal aborts', async () => {
    const { leases } = await open({ url: fresh.url })
    const abort = new AbortController()
    const acquiring = leases.tryAcquire('never', { spread: '1h', signal: abort.signal })
    const reason = new Error('enough')
    abort.abort(reason)
    await expect(within(15_000, 'the rejection', acquiring)).rejects.toBe(reason)
  })
})

describe('guard', () => {
  const beginTransaction = async () => {
    const client = await sqlSession(fresh.url)
    await client.query('begin')
    return client
  }

  test('guard accepts the current holder', async () => {
    const { leases } = await open({ url: fresh.url })
    await using lease = await leases.acquire('guarded')
    const client = await beginTransaction()
    await lease.guard(client)
    await client.query('commit')
  })

  test('guard refuses an expired or revoked lease, also if its holder has not noticed', async () => {
    const { leases } = await open({ url: fresh.url })
    for (const end of [letExpire, takeAway]) {
      const lease = await leases.acquire('ended', { wait: '5s' })
      await end(fresh.url, lease.key)
      expect(lease.held).toBe(true)
      const error = await caught(StaleFenceError, lease.guard(await beginTransaction()))
      expect(error.message).toContain('is stale')
      await lease.release()
    }
  })

  test('guard refuses an earlier holder after a later holder of a lock has written', async () => {
    const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
    const old = await a.leases.acquire('overtaken')
    await takeAway(fresh.url, old.key)
    await using later = await b.locks.acquire('overtaken', { wait: 0 })
    const client = await beginTransaction()
    await later.guard(client)
    await client.query('commit')
    await caught(StaleFenceError, old.guard(await beginTransaction()))
    const { rows } = await client.query('select fence::float8 from holdfast.fence_guard where key = $1', [old.key])
    expect(rows).toEqual([{ fence: later.fence }])
  })

  test('guard refuses a released lease', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('released')
    await lease.release()
    expect((await caught(UsageError, lease.guard(await beginTransaction()))).message).toBe(
      'Expected guard to be called on a held lease, got a released lease',
    )
  })
})

test('the sweep deletes rows of names that have been free for an hour', async () => {
  const { leases } = await open({ url: fresh.url })
  const lease = await leases.acquire('swept')
  const kept = await leases.acquire('kept')
  await sql(fresh.url, "update holdfast.lease set expires_at = now() - interval '2 h' where key = $1", [lease.key])
  const { loadStatements } = await import('../../src/postgres/index.js')
  const statements = loadStatements<'sweep'>(new URL('../../src/leases/leases.sql', import.meta.url), 'holdfast')
  await sql(fresh.url, statements.sweep.text, [1_000])
  expect(await leaseRow(fresh.url, lease.key)).toBeUndefined()
  expect(await leaseRow(fresh.url, kept.key)).toBeDefined()
})
