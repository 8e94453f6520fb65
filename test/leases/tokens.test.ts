// Who knows the token is the holder: acquires again, releases from elsewhere. Nobody else is.
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

test('each acquisition has its own token, and the row carries no name of a machine', async () => {
  const { leases } = await open({ url: fresh.url })
  const [one, other] = await Promise.all(['t1', 't2'].map((name) => leases.acquire(name)))
  expect(one!.token).not.toBe(other!.token)
  expect((await leaseRow(fresh.url, one!.key))!.token).toBe(one!.token)
})

test('the same token acquires again, with the same fence; the name is free when all of them have released', async () => {
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

test('the same token acquires again in another instance', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const lease = await a.leases.acquire('elsewhere', { token: 'shared by two' })
  // A stranger who asks in the same turn changes nothing about it.
  const [stranger, again] = await Promise.all([
    b.leases.tryAcquire('elsewhere'),
    b.leases.tryAcquire('elsewhere', { token: 'shared by two' }),
  ])
  expect(stranger).toBeNull()
  expect(again!.fence).toBe(lease.fence)
})

test('what was granted to a token is not shortened by another who has it', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const long = await a.leases.acquire('long', { ttl: '1h' })
  const short = await b.leases.acquire('long', { ttl: '1s', token: long.token })
  await short.extend('1s')
  expect(long.held).toBe(true)
  expect((await leaseRow(fresh.url, long.key))!.leftMs).toBeGreaterThan(3_500_000)
})

test('acquired again for longer, it lasts longer; its hold is the longest of all', async () => {
  const { leases } = await open({ url: fresh.url })
  const outer = await leases.acquire('longer', { ttl: '10s', token: 'mine' })
  const inner = await leases.acquire('longer', { ttl: '1h', token: 'mine' })
  expect([outer.ttlMs, inner.ttlMs]).toEqual([3_600_000, 3_600_000])
  const briefer = await leases.acquire('longer', { ttl: '10s', token: 'mine' })
  expect(briefer.ttlMs).toBe(3_600_000)
})

test('the hold of the first acquisition outlasts a second one without', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const outer = await a.leases.acquire('kept hold', { minHold: '1h' })
  const inner = await b.leases.acquire('kept hold', { token: outer.token })
  await inner.release()
  expect((await leaseRow(fresh.url, outer.key))!.leftMs).toBeGreaterThan(3_500_000)
})

test('an acquire of the same token that is aborted takes nothing away', async () => {
  const { leases } = await open({ url: fresh.url })
  const outer = await leases.acquire('abort again')
  for (let round = 0; round < 10; round++) {
    const abort = new AbortController()
    const inner = leases.acquire('abort again', { token: outer.token, signal: abort.signal }).catch(() => {})
    await new Promise(setImmediate)
    abort.abort()
    await inner
  }
  // What goes out behind it is answered behind it.
  expect(await leases.release('abort again', 'some token')).toBe(false)
  await outer.extend()
  expect(outer.held).toBe(true)
})

test('of two who enter with one token at once, one that is aborted takes nothing from the other', async () => {
  const { leases } = await open({ url: fresh.url })
  for (let round = 0; round < 20; round++) {
    const abort = new AbortController()
    const aborted = leases.acquire('at once', { token: 'one token', signal: abort.signal }).catch(() => undefined)
    const other = leases.acquire('at once', { token: 'one token' })
    for (let turn = 0; turn < round % 4; turn++) await new Promise(setImmediate)
    abort.abort()
    const lease = await other
    await (await aborted)?.release()
    await lease.extend()
    await lease.release()
    // A handle is as good as its row: acquired right behind the release of the same token.
    const next = await leases.acquire('at once', { token: 'one token' })
    await next.extend()
    void next.release()
  }
})

test('the release of a handle that was lost does not touch what its token was granted since', async () => {
  const { leases } = await open({ url: fresh.url })
  const old = await leases.acquire('anew', { token: 'mine' })
  await letExpire(fresh.url, old.key)
  const anew = await leases.acquire('anew', { token: 'mine' })
  expect(anew.fence).toBeGreaterThan(old.fence)
  expect([old.held, anew.held]).toEqual([false, true])
  await old.release()
  await anew.extend()
  expect(anew.held).toBe(true)
  expect(await isFree(anew.key)).toBe(false)
})

test('a lease that was taken away does not live on in the renewal of the next one of the same name', async () => {
  const { leases } = await open({ url: fresh.url })
  const old = await leases.acquire('two of one name', { ttl: '1s' })
  await takeAway(fresh.url, old.key)
  const next = await leases.acquire('two of one name', { ttl: '1s' })
  await until('the renewal tells', () => !old.held, 5_000)
  expect(next.held).toBe(true)
})

test('released by its token, from elsewhere: true, the name is free, and its holder hears at once', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const lease = await a.leases.acquire('from elsewhere', { ttl: '1h' })
  const told = new Promise<Error>((resolve) =>
    lease.signal.addEventListener('abort', () => resolve(lease.signal.reason)),
  )
  expect(await b.leases.release('from elsewhere', lease.token)).toBe(true)
  expect(await told).toBeInstanceOf(LeaseLostError)
  expect(lease.held).toBe(false)
  expect(await b.leases.release('from elsewhere', lease.token)).toBe(false)
  await using _next = await b.leases.acquire('from elsewhere', { wait: 0 })
})

test('a handle that is released in another instance ends the holding for all who have its token, and they hear at once', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  for (const [round, releases] of [0, 1].entries()) {
    const one = await a.leases.acquire('handles elsewhere', { ttl: '1h', token: `of both, ${round}` })
    const other = await b.leases.acquire('handles elsewhere', { ttl: '1h', token: one.token })
    const [released, left] = releases === 0 ? [one, other] : [other, one]
    await released!.release()
    await until('the other hears of it', () => left!.signal.aborted, 5_000)
    expect(left!.signal.reason).toBeInstanceOf(LeaseLostError)
    expect([left!.held, await isFree(one.key)]).toEqual([false, true])
  }
})

test('an acquire that is aborted takes nothing from another instance which has the same token', async () => {
  const a = await open({ url: fresh.url })
  const lease = await a.leases.acquire('aborted elsewhere', { token: 'of both' })
  for (let round = 0; round < 5; round++) {
    const b = await open({ url: fresh.url })
    const abort = new AbortController()
    const asked = b.leases.acquire('aborted elsewhere', { token: 'of both', signal: abort.signal }).catch(() => {})
    for (let turn = 0; turn <= round; turn++) await new Promise(setImmediate)
    abort.abort()
    await asked
    // What it may have been granted has been given back by then.
    await b.close()
    await lease.extend()
  }
  expect(lease.held).toBe(true)
})

test('an acquire whose answer is lost takes nothing from another instance which has the same token', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const lease = await a.leases.acquire('answer lost', { token: 'of both' })
  const blocker = await sqlSession(fresh.url)
  await blocker.query('begin')
  await blocker.query('select from holdfast.lease where key = $1 for update', [lease.key])
  const asked = caught(DatabaseUnreachableError, b.leases.tryAcquire('answer lost', { token: 'of both' }))
  await until('its session has been ended', async () => {
    const ended = await sql(
      fresh.url,
      `select pg_terminate_backend(pid) from pg_stat_activity
       where wait_event_type = 'Lock' and datname = current_database() and query like '%from %acquire_leases%'`,
    )
    return ended.length === 1
  })
  await asked
  await blocker.query('commit')
  await b.close()
  await lease.extend()
  expect(lease.held).toBe(true)
})

test('what a token of the caller is granted after an abort is given back', async () => {
  const b = await open({ url: fresh.url })
  const blocker = await sqlSession(fresh.url)
  await letExpire(fresh.url, (await b.leases.acquire('granted late')).key)
  const key = b.locks.key('granted late')
  await blocker.query('begin')
  await blocker.query('select from holdfast.lease where key = $1 for update', [key])
  const abort = new AbortController()
  const asked = b.leases.acquire('granted late', { ttl: '1h', token: 'mine', signal: abort.signal }).catch(() => {})
  await until('it waits in the database', async () => {
    const { rowCount } = await blocker.query(
      "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    )
    return rowCount === 1
  })
  abort.abort()
  await asked
  await blocker.query('commit')
  await until('it is free', () => isFree(key))
  expect((await leaseRow(fresh.url, key))!.token).toBe('')
})

test('released by its token in the same process: the handle knows before anybody else can have it', async () => {
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

test('a stranger releases nothing and is told so, also in one breath with the holder', async () => {
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

test.each([undefined, '', 42])('%j is no token', async (token) => {
  const { leases } = await open({ url: fresh.url })
  const error = await caught(UsageError, leases.release('name', token as never))
  expect(error.message).toContain('Expected the token to be the token of a lease, got')
})

test('a lease whose time was over is not renewed: somebody may have had the name as a lock since', async () => {
  const [a, b] = await Promise.all([open({ url: fresh.url }), open({ url: fresh.url })])
  const lease = await a.leases.acquire('over')
  await letExpire(fresh.url, lease.key)
  await using _lock = await b.locks.acquire('over', { wait: 0 })
  await caught(LeaseLostError, lease.extend())
  expect(await isFree(lease.key)).toBe(true)
})

test('a renewal that goes out behind an extension does not take it back', async () => {
  const { leases } = await open({ url: fresh.url })
  const lease = await leases.acquire('overtaken', { ttl: '1s' })
  const blocker = await sqlSession(fresh.url)
  await blocker.query('begin')
  await blocker.query('select from holdfast.lease where key = $1 for update', [lease.key])
  const extending = lease.extend('1h')
  await until('a renewal waits behind it', async () => {
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
