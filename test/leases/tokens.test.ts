// A process that knows the token of a lease is a holder. It can acquire the lease again and release it from another instance. Other processes
// cannot.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DatabaseUnreachableError, LeaseLostError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { leaseRow, letExpire, takeAway } from './rows.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const isFree = async (key: string) => ((await leaseRow(fresh.url, key))?.leftMs ?? 0) <= 0

test('each acquisition has its own token, which is stored in the row', async () => {
  const { leases } = await open({ url: fresh.url })
  const [one, other] = await Promise.all(['t1', 't2'].map((name) => leases.acquire(name)))
  expect(one!.token).not.toBe(other!.token)
  expect((await leaseRow(fresh.url, one!.key))!.token).toBe(one!.token)
})

test('the same token acquires the lease again with the same fence, and the name is free when all handles are released', async () => {
  const { leases } = await open({ url: fresh.url })
  const outer = await leases.acquire('again')
  const { token } = outer
  const inner = await leases.acquire('again', { token, wait: 0 })
  const tried = await leases.tryAcquire('again', { token })
  expect([inner.fence, tried!.fence]).toEqual([outer.fence, outer.fence])
  expect(await leases.tryAcquire('again', { token: 'another' })).toBeNull()
  await outer.release()
  await tried!.release()
  expect([outer.held, inner.held]).toEqual([false, true])
  expect(await leases.tryAcquire('again')).toBeNull()
  await inner.release()
  expect(await isFree(outer.key)).toBe(true)
})

test('the same token acquires the lease again in another instance', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const lease = await a.leases.acquire('elsewhere', { token: 'shared by two' })
  // A request with another token in the same turn of the event loop has no effect.
  const [refused, again] = await Promise.all([
    b.leases.tryAcquire('elsewhere'),
    b.leases.tryAcquire('elsewhere', { token: 'shared by two' }),
  ])
  expect(refused).toBeNull()
  expect(again!.fence).toBe(lease.fence)
})

test('a second acquisition with the same token does not shorten the lease', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const long = await a.leases.acquire('long', { ttl: '1h' })
  const short = await b.leases.acquire('long', { ttl: '1s', token: long.token })
  await short.extend('1s')
  expect(long.held).toBe(true)
  expect((await leaseRow(fresh.url, long.key))!.leftMs).toBeGreaterThan(3_500_000)
})

test('a second acquisition with the same token extends the lease to the longest ttl', async () => {
  const { leases } = await open({ url: fresh.url })
  const outer = await leases.acquire('longer', { ttl: '10s', token: 'mine' })
  const inner = await leases.acquire('longer', { ttl: '1h', token: 'mine' })
  expect([outer.ttlMs, inner.ttlMs]).toEqual([3_600_000, 3_600_000])
  const shorter = await leases.acquire('longer', { ttl: '10s', token: 'mine' })
  expect(shorter.ttlMs).toBe(3_600_000)
})

test('the minHold of the first acquisition applies also after a second one without minHold', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const outer = await a.leases.acquire('kept hold', { minHold: '1h' })
  const inner = await b.leases.acquire('kept hold', { token: outer.token })
  await inner.release()
  expect((await leaseRow(fresh.url, outer.key))!.leftMs).toBeGreaterThan(3_500_000)
})

test('an aborted acquire with the same token does not end the lease', async () => {
  const { leases } = await open({ url: fresh.url })
  const outer = await leases.acquire('abort again')
  for (let round = 0; round < 10; round++) {
    const abort = new AbortController()
    const inner = leases.acquire('abort again', { token: outer.token, signal: abort.signal }).catch(() => {})
    await new Promise(setImmediate)
    abort.abort()
    await inner
  }
  // The database answers this statement after those of the aborted calls.
  expect(await leases.release('abort again', 'some token')).toBe(false)
  await outer.extend()
  expect(outer.held).toBe(true)
})

test('an aborted acquire does not affect a concurrent acquire with the same token', async () => {
  const { leases } = await open({ url: fresh.url })
  for (let round = 0; round < 20; round++) {
    const abort = new AbortController()
    const aborted = leases.acquire('concurrent', { token: 'one token', signal: abort.signal }).catch(() => undefined)
    const other = leases.acquire('concurrent', { token: 'one token' })
    for (let turn = 0; turn < round % 4; turn++) await new Promise(setImmediate)
    abort.abort()
    const lease = await other
    await (await aborted)?.release()
    await lease.extend()
    await lease.release()
    // This acquire follows immediately after the release of the same token. Its handle must be valid.
    const next = await leases.acquire('concurrent', { token: 'one token' })
    await next.extend()
    void next.release()
  }
})

test('the release of a lost handle does not end a later lease of the same token', async () => {
  const { leases } = await open({ url: fresh.url })
  const old = await leases.acquire('acquired twice', { token: 'mine' })
  await letExpire(fresh.url, old.key)
  const later = await leases.acquire('acquired twice', { token: 'mine' })
  expect(later.fence).toBeGreaterThan(old.fence)
  expect([old.held, later.held]).toEqual([false, true])
  await old.release()
  await later.extend()
  expect(later.held).toBe(true)
  expect(await isFree(later.key)).toBe(false)
})

test('the renewal of a later lease of the same name does not keep an earlier, revoked lease alive', async () => {
  const { leases } = await open({ url: fresh.url })
  const old = await leases.acquire('two of one name', { ttl: '1s' })
  await takeAway(fresh.url, old.key)
  const next = await leases.acquire('two of one name', { ttl: '1s' })
  await until('the renewal detects the loss', () => !old.held, 5_000)
  expect(next.held).toBe(true)
})

test('leases.release by another instance returns true, frees the name and notifies the holder immediately', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const lease = await a.leases.acquire('from elsewhere', { ttl: '1h' })
  const abortReason = new Promise<Error>((resolve) =>
    lease.signal.addEventListener('abort', () => resolve(lease.signal.reason)),
  )
  expect(await b.leases.release('from elsewhere', lease.token)).toBe(true)
  expect(await abortReason).toBeInstanceOf(LeaseLostError)
  expect(lease.held).toBe(false)
  expect(await b.leases.release('from elsewhere', lease.token)).toBe(false)
  await using _next = await b.leases.acquire('from elsewhere', { wait: 0 })
})

test('the release of a handle ends the leases of all handles with the same token, and notifies them immediately', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  for (const [round, releases] of [0, 1].entries()) {
    const one = await a.leases.acquire('handles elsewhere', { ttl: '1h', token: `of both, ${round}` })
    const other = await b.leases.acquire('handles elsewhere', { ttl: '1h', token: one.token })
    const [released, left] = releases === 0 ? [one, other] : [other, one]
    await released!.release()
    await until('the other handle is notified', () => left!.signal.aborted, 5_000)
    expect(left!.signal.reason).toBeInstanceOf(LeaseLostError)
    expect([left!.held, await isFree(one.key)]).toEqual([false, true])
  }
})

test('an aborted acquire does not end the lease of another instance with the same token', async () => {
  const a = await open({ url: fresh.url })
  const lease = await a.leases.acquire('aborted elsewhere', { token: 'of both' })
  const blocker = await sqlSession(fresh.url)
  for (let round = 0; round < 5; round++) {
    const b = await open({ url: fresh.url })
    const abort = new AbortController()
    // The request must not be answered before it is aborted.
    await blocker.query('begin')
    await blocker.query('select from holdfast.lease where key = $1 for update', [lease.key])
    const acquiring = b.leases.acquire('aborted elsewhere', { token: 'of both', signal: abort.signal }).catch(() => {})
    for (let turn = 0; turn <= round; turn++) await new Promise(setImmediate)
    abort.abort()
    await acquiring
    await blocker.query('commit')
    // close releases the lease if the aborted request was granted.
    await b.close()
    await lease.extend()
  }
  expect(lease.held).toBe(true)
})

test('an acquire whose response is lost does not end the lease of another instance with the same token', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const lease = await a.leases.acquire('answer lost', { token: 'of both' })
  const blocker = await sqlSession(fresh.url)
  await blocker.query('begin')
  await blocker.query('select from holdfast.lease where key = $1 for update', [lease.key])
  const acquiring = caught(DatabaseUnreachableError, b.leases.tryAcquire('answer lost', { token: 'of both' }))
  await until('the session of the request is terminated', async () => {
    const ended = await sql(
      fresh.url,
      `select pg_terminate_backend(pid) from pg_stat_activity
       where wait_event_type = 'Lock' and datname = current_database() and query like '%from %acquire_lease%'`,
    )
    return ended.length === 1
  })
  await acquiring
  await blocker.query('commit')
  await b.close()
  await lease.extend()
  expect(lease.held).toBe(true)
})

test('a lease that is granted after an abort is released, also with a token of the caller', async () => {
  const b = await open({ url: fresh.url })
  const blocker = await sqlSession(fresh.url)
  await letExpire(fresh.url, (await b.leases.acquire('granted late')).key)
  const key = b.locks.key('granted late')
  await blocker.query('begin')
  await blocker.query('select from holdfast.lease where key = $1 for update', [key])
  const abort = new AbortController()
  const acquiring = b.leases.acquire('granted late', { ttl: '1h', token: 'mine', signal: abort.signal }).catch(() => {})
  await until('the request waits in the database', async () => {
    const { rowCount } = await blocker.query(
      "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    )
    return rowCount === 1
  })
  abort.abort()
  await acquiring
  await blocker.query('commit')
  // The name is also free before the grant, so this waits for the release, which deletes the row.
  await until('the lease is released', async () => (await leaseRow(fresh.url, key)) === undefined)
  expect(await isFree(key)).toBe(true)
})

test('leases.release in the same process invalidates the handle before another holder can get the name', async () => {
  const { leases } = await open({ url: fresh.url })
  const lease = await leases.acquire('by token')
  const releasing = leases.release('by token', lease.token)
  expect(lease.held).toBe(false)
  expect(lease.signal.reason.message).toBe(
    'The lease "by token" was lost: the handle whose lease was released by its token is closed',
  )
  expect(await releasing).toBe(true)
  await using _next = await leases.acquire('by token', { wait: 0 })
})

test('leases.release with another token returns false, also in the same turn as the release of the holder', async () => {
  const { leases } = await open({ url: fresh.url })
  const lease = await leases.acquire('not yours')
  expect(await leases.release('not yours', 'some token')).toBe(false)
  expect(await leases.release('never leased', 'some token')).toBe(false)
  await lease.extend()
  expect(lease.held).toBe(true)
  const answers = await Promise.all([
    leases.release('not yours', 'some token'),
    leases.release('not yours', lease.token),
    leases.release('not yours', 'another token'),
  ])
  expect(answers).toEqual([false, true, false])
})

test.each([undefined, '', 42])('leases.release refuses %j as a token', async (token) => {
  const { leases } = await open({ url: fresh.url })
  const error = await caught(UsageError, leases.release('name', token as never))
  expect(error.message).toContain('Expected token to be a string of 1 to 500 characters without zero bytes, got')
})

test.each(['zero\0byte', 'half of an emoji \ud83d', 'x'.repeat(501)])(
  'the token %j is refused, and other requests are not affected',
  async (token) => {
    const { leases } = await open({ url: fresh.url })
    const [lease, error, released] = await Promise.all([
      leases.acquire(`next to ${token.length}`),
      caught(UsageError, leases.acquire('refused token', { token })),
      caught(UsageError, leases.release('refused token', token)),
    ])
    expect(lease.held).toBe(true)
    expect(error.message).toContain('Expected token to be a string of 1 to 500 characters without zero bytes')
    expect(released.message).toBe(error.message)
  },
)

test('an expired lease is not renewed, because another holder may have locked the name since', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const lease = await a.leases.acquire('over')
  await letExpire(fresh.url, lease.key)
  await using _lock = await b.locks.acquire('over', { wait: 0 })
  await caught(LeaseLostError, lease.extend())
  expect(await isFree(lease.key)).toBe(true)
})

test('a renewal that is sent after an extension does not shorten the lease', async () => {
  const { leases } = await open({ url: fresh.url })
  const lease = await leases.acquire('overtaken', { ttl: '1s' })
  const blocker = await sqlSession(fresh.url)
  await blocker.query('begin')
  await blocker.query('select from holdfast.lease where key = $1 for update', [lease.key])
  const extending = lease.extend('1h')
  await until('a renewal waits after the extension', async () => {
    const { rows } = await blocker.query(
      "select count(*)::integer as count from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    )
    return rows[0].count >= 2
  })
  await blocker.query('commit')
  await extending
  expect(lease.ttlMs).toBe(3_600_000)
  expect(lease.held).toBe(true)
  expect((await leaseRow(fresh.url, lease.key))!.leftMs).toBeGreaterThan(3_500_000)
})
