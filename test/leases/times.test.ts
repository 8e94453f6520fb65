// ttl, hold, spread, extend and guard.
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
  test('a lease renews itself for as long as it is held', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('renewed', { ttl: '3s' })
    const first = (await leaseRow(fresh.url, lease.key))!
    await until('it has another life', async () => {
      const { leftMs, expiresAtMs } = (await leaseRow(fresh.url, lease.key))!
      expect(leftMs).toBeGreaterThan(0)
      expect(lease.held).toBe(true)
      return expiresAtMs > first.expiresAtMs + lease.ttlMs
    })
    await lease.release()
    expect((await leaseRow(fresh.url, lease.key))!.leftMs).toBeLessThanOrEqual(0)
  })

  test('a blocked event loop: the first look after it says no, and the name is another’s for the taking', async () => {
    const { leases } = await open({ url: fresh.url })
    const [quiet, loud] = await Promise.all(['quiet', 'loud'].map((name) => leases.acquire(name, { ttl: '1s' })))
    const { signal } = loud!
    const from = performance.now()
    while (performance.now() - from < 1_100) Math.sqrt(2)
    expect(quiet!.held).toBe(false)
    expect(quiet!.signal.reason).toBeInstanceOf(LeaseLostError)
    await until('the signal speaks by itself', () => signal.aborted)
    await until('the name is free', async () => (await leaseRow(fresh.url, quiet!.key))!.leftMs <= 0)
    const next = await leases.acquire('quiet', { wait: 0 })
    expect(next.fence).toBeGreaterThan(quiet!.fence)
    await quiet!.release()
    expect(next.held).toBe(true)
  })
})

describe('extend', () => {
  test('for longer: at once, and for all later renewals', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('longer', { ttl: '1s' })
    await lease.extend('1h')
    expect(lease.ttlMs).toBe(3_600_000)
    expect((await leaseRow(fresh.url, lease.key))!.leftMs).toBeGreaterThan(3_500_000)
    const from = performance.now()
    while (performance.now() - from < 1_500) Math.sqrt(2)
    expect(lease.held).toBe(true)
  })

  test('for less: what was granted stays granted, and later renewals are for less', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('shorter', { ttl: '6s' })
    await lease.extend('3s')
    expect(lease.ttlMs).toBe(3_000)
    const granted = (await leaseRow(fresh.url, lease.key))!
    expect(granted).toMatchObject({ ttlMs: 3_000 })
    expect(granted.leftMs).toBeGreaterThan(3_000)
    await until('it is renewed beyond that, for less', async () => {
      const { leftMs, expiresAtMs } = (await leaseRow(fresh.url, lease.key))!
      if (expiresAtMs > granted.expiresAtMs) expect(leftMs).toBeLessThanOrEqual(3_000)
      return expiresAtMs > granted.expiresAtMs
    })
    expect(lease.held).toBe(true)
  })

  test('fails fast when the lease was taken away, and tells the signal', async () => {
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

  test('many at once are a few statements', async () => {
    const { leases } = await open({ url: fresh.url })
    const all = await Promise.all(Array.from({ length: 200 }, (_, at) => leases.acquire(`many ${at}`)))
    const before = await renewals()
    await Promise.all(all.map((lease) => lease.extend('1m')))
    expect((await renewals()) - before).toBeLessThan(5)
    for (const lease of all) expect(lease.ttlMs).toBe(60_000)
  })

  test('of what was released, or with a wrong time, is a mistake', async () => {
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

describe('hold', () => {
  test('the name stays taken after a quick run, counted from the grant, and then is free', async () => {
    const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
    const lease = await a.leases.acquire('held on', { minHold: '1500ms' })
    const from = performance.now()
    await lease.release()
    expect(await b.leases.tryAcquire('held on')).toBeNull()
    expect(await b.locks.tryAcquire('held on')).toBeNull()
    await using next = await within(8_000, 'The end of the hold', b.leases.acquire('held on'))
    expect(performance.now() - from).toBeGreaterThan(1_000)
    expect(next.fence).toBeGreaterThan(lease.fence)
  })

  test('is over when the work took longer', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('long work', { minHold: '1h' })
    await sql(fresh.url, "update holdfast.lease set granted_at = granted_at - interval '1 h' where key = $1", [
      lease.key,
    ])
    await lease.release()
    await using _next = await leases.acquire('long work', { wait: 0 })
  })

  test('is not even its own holder’s: the work was done', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('own', { minHold: '1h', token: 'mine' })
    await lease.release()
    expect(await leases.tryAcquire('own', { token: 'mine' })).toBeNull()
  })

  test('does not outlast a holder who died: another may do the work', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('died', { minHold: '1h' })
    await letExpire(fresh.url, lease.key)
    await using _next = await leases.acquire('died', { wait: 0 })
  })
})

describe('spread', () => {
  test('competes only after a random time', async () => {
    const { leases } = await open({ url: fresh.url })
    // The first statement also opens a connection. On a busy machine that takes longer than the spread, and all would be granted after it.
    await leases.acquire('before')
    const from = performance.now()
    const took = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        await leases.acquire(`spread ${at}`, { spread: '500ms' })
        return performance.now() - from
      }),
    )
    took.sort((x, y) => x - y)
    // Twenty times all in one half of the time: one of half a million.
    expect(took.at(-1)! - took[0]!).toBeGreaterThan(100)
    expect(took.at(-1)!).toBeLessThan(5_000)
  })

  test('ends when the signal aborts', async () => {
    const { leases } = await open({ url: fresh.url })
    const abort = new AbortController()
    const asked = leases.tryAcquire('never', { spread: '1h', signal: abort.signal })
    const reason = new Error('enough')
    abort.abort(reason)
    await expect(within(15_000, 'The end', asked)).rejects.toBe(reason)
  })
})

describe('guard', () => {
  const tx = async () => {
    const client = await sqlSession(fresh.url)
    await client.query('begin')
    return client
  }

  test('lets the holder write', async () => {
    const { leases } = await open({ url: fresh.url })
    await using lease = await leases.acquire('guarded')
    const client = await tx()
    await lease.guard(client)
    await client.query('commit')
  })

  test('refuses when the lease is over or was taken away, although its holder has not heard of it', async () => {
    const { leases } = await open({ url: fresh.url })
    for (const end of [letExpire, takeAway]) {
      const lease = await leases.acquire('ended', { wait: '5s' })
      await end(fresh.url, lease.key)
      expect(lease.held).toBe(true)
      const error = await caught(StaleFenceError, lease.guard(await tx()))
      expect(error.message).toContain('is stale')
      await lease.release()
    }
  })

  test('refuses the earlier holder once a later one has written, by lease or by lock', async () => {
    const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
    const old = await a.leases.acquire('overtaken')
    await takeAway(fresh.url, old.key)
    await using later = await b.locks.acquire('overtaken', { wait: 0 })
    const client = await tx()
    await later.guard(client)
    await client.query('commit')
    await caught(StaleFenceError, old.guard(await tx()))
    const { rows } = await client.query('select fence::float8 from holdfast.fence_guard where key = $1', [old.key])
    expect(rows).toEqual([{ fence: later.fence }])
  })

  test('of what was released is a mistake', async () => {
    const { leases } = await open({ url: fresh.url })
    const lease = await leases.acquire('released')
    await lease.release()
    expect((await caught(UsageError, lease.guard(await tx()))).message).toBe(
      'Expected guard to be called on a held lease, got a released lease',
    )
  })
})

test('names that have been free for an hour are swept', async () => {
  const { leases } = await open({ url: fresh.url })
  const lease = await leases.acquire('swept')
  await lease.release()
  const kept = await leases.acquire('kept')
  await sql(fresh.url, "update holdfast.lease set expires_at = now() - interval '2 h' where key = $1", [lease.key])
  const { loadStatements } = await import('../../src/postgres/index.js')
  const statements = loadStatements<'sweep'>(new URL('../../src/leases/leases.sql', import.meta.url), 'holdfast')
  await sql(fresh.url, statements.sweep.text, [1_000])
  expect(await leaseRow(fresh.url, lease.key)).toBeUndefined()
  expect(await leaseRow(fresh.url, kept.key)).toBeDefined()
})
