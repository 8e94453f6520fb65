// Tests all methods that acquire leases, between two instances and within one instance.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClosedError, Holdfast, LeaseLostError, LeaseTimeoutError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { leasedNames, leaseRow } from './rows.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function pair(where: string): Promise<[Holdfast, Holdfast]> {
  const first = await open({ url: fresh.url, namespace: where })
  return [first, where === 'one instance' ? first : await open({ url: fresh.url, namespace: where })]
}

describe.each(['two instances', 'one instance'])('leases of %s', (where) => {
  test('a second holder gets the lease only after the release of the first', async () => {
    const [a, b] = await pair(where)
    const first = await a.leases.acquire('name')
    expect(first).toMatchObject({ name: 'name', held: true, ttlMs: 30_000, key: a.locks.key('name') })
    expect(first.signal.aborted).toBe(false)
    expect(await b.leases.tryAcquire('name')).toBeNull()
    expect(await b.leases.tryAcquire('name', { wait: 20 })).toBeNull()
    const error = await caught(LeaseTimeoutError, b.leases.acquire('name', { wait: '20ms' }))
    expect(error).toMatchObject({ lease: 'name', code: 'LEASE_TIMEOUT', retryable: true })
    expect(error.message).toMatch(/^The lease "name" was still held by \S+ after a wait of \d+ms\. The hold began /)
    expect(error.waitedMs).toBeGreaterThanOrEqual(19)
    await caught(LeaseTimeoutError, b.leases.acquire('name', { wait: 0 }))
    await first.release()
    expect(first.held).toBe(false)
    expect(first.signal.aborted).toBe(false)
    await using second = await b.leases.acquire('name', { wait: 0 })
    expect(second.fence).toBeGreaterThan(first.fence)
  })

  test('a waiter gets the lease when it is released', async () => {
    const [a, b] = await pair(where)
    const first = await a.leases.acquire('handed on')
    const waiting = b.leases.acquire('handed on')
    await until('the wait is in the database', async () => (await leaseRow(fresh.url, first.key))!.hasWaiters)
    await first.release()
    await using second = await within(5_000, 'the grant', waiting)
    expect(second.fence).toBeGreaterThan(first.fence)
  })

  test('a waiter gets the lease when it expires', async () => {
    const [a, b] = await pair(where)
    const first = await a.leases.acquire('expires')
    const waiting = b.leases.acquire('expires')
    await sql(fresh.url, "update holdfast.lease set expires_at = clock_timestamp() + interval '1 s' where key = $1", [
      first.key,
    ])
    await using second = await within(8_000, 'the grant', waiting)
    expect(second.fence).toBeGreaterThan(first.fence)
  })

  test('ten concurrent requests get the lease one after the other', async () => {
    const [a, b] = await pair(where)
    let inside = 0
    const fences: number[] = []
    const round = (instance: Holdfast) =>
      instance.leases.with('in turn', async ({ fence }) => {
        expect(++inside).toBe(1)
        await sql(fresh.url, 'select 1')
        fences.push(fence)
        inside--
      })
    await Promise.all(Array.from({ length: 10 }, (_, at) => round(at % 2 ? a : b)))
    expect(fences).toEqual(fences.toSorted((x, y) => x - y))
    expect(new Set(fences).size).toBe(10)
  })
})

describe('a wait for a lease', () => {
  test('an aborted wait rejects with the reason of its signal and leaves no lease', async () => {
    const [a, b] = await pair('aborts')
    const held = await a.leases.acquire('aborted')
    const abort = new AbortController()
    const waiting = b.leases.acquire('aborted', { signal: abort.signal })
    await until('the wait is in the database', async () => (await leaseRow(fresh.url, held.key))!.hasWaiters)
    const reason = new Error('enough')
    abort.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    await expect(b.leases.acquire('aborted', { signal: abort.signal })).rejects.toBe(reason)
    await held.release()
    expect(await leasedNames(fresh.url, b.id)).toBe(0)
  })

  test('a wait that is aborted at the moment of the grant leaves no lease', async () => {
    const [a] = await pair('aborts')
    const rounds = Array.from({ length: 50 }, async (_, at) => {
      const abort = new AbortController()
      const acquiring = a.leases.acquire(`instant ${at}`, { signal: abort.signal })
      setTimeout(() => abort.abort(new Error('now')), at / 5)
      const lease = await acquiring.catch(() => undefined)
      await lease?.release()
    })
    await Promise.all(rounds)
    await until('nothing is leased', async () => (await leasedNames(fresh.url, a.id)) === 0)
  })

  test('a wait ends in time if the database does not respond', async () => {
    const [a] = await pair('slow')
    const blocker = await sqlSession(fresh.url)
    await blocker.query('begin')
    await blocker.query('lock table holdfast.lease in access exclusive mode')
    await expect(a.leases.acquire('slow', { wait: 200 })).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: 'No response arrived within 1s',
    })
    await blocker.query('rollback')
    await until('the lease that was granted late is released', async () => (await leasedNames(fresh.url, a.id)) === 0)
  })
})

describe('leases.with', () => {
  test('leases.with passes the lease to the handler, returns its result and releases the lease', async () => {
    const [a, b] = await pair('with')
    const result = await a.leases.with('job', { wait: '1s' }, async (lease) => {
      expect(lease.held).toBe(true)
      expect(await b.leases.tryAcquire('job')).toBeNull()
      return lease.fence
    })
    expect(result).toBeGreaterThan(0)
    await using _lease = await b.leases.acquire('job', { wait: 0 })
  })

  test('leases.with releases the lease if the handler throws, and throws the same error', async () => {
    const [a, b] = await pair('with')
    const reason = new Error('no')
    await expect(a.leases.with('throwing', () => Promise.reject(reason))).rejects.toBe(reason)
    await using _lease = await b.leases.acquire('throwing', { wait: 0 })
  })

  test('leases.with rejects if the lease was lost, although the handler returns', async () => {
    const [a] = await pair('with')
    const work = a.leases.with('lost', async (lease) => {
      await sql(fresh.url, "update holdfast.lease set token = '' where key = $1", [lease.key])
      await caught(LeaseLostError, lease.extend())
    })
    const error = await caught(LeaseLostError, work)
    expect(error).toMatchObject({ code: 'LEASE_LOST', lease: 'lost' })
    expect(error.message).toBe(
      'The lease "lost" was lost: the lease has expired, or another process has expired or released it',
    )
  })

  test.each([
    [['name'], 'a function, got undefined'],
    [['name', { wait: 1 }], 'a function, got an object (Object)'],
    [['name', 'not a function'], 'a function, got "not a function" (string)'],
  ])('leases.with refuses the arguments %j', async (given, message) => {
    const [a] = await pair('with')
    const work = (a.leases.with as (...given: unknown[]) => Promise<unknown>)(...given)
    expect((await caught(UsageError, work)).message).toContain(message)
  })
})

test.each<[object, string]>([
  [{ ttl: '999ms' }, 'Expected ttl to be a duration of at least 1s and at most 24d, got "999ms" (string)'],
  [{ ttl: 'soon' }, 'Expected ttl to be a duration of at least 1s and at most 24d, got "soon" (string)'],
  [{ minHold: -1 }, 'Expected minHold to be a duration of at least 0ms and at most 24d, got -1 (number)'],
  [{ spread: '25d' }, 'Expected spread to be a duration of at least 0ms and at most 24d, got "25d" (string)'],
  [{ wait: null }, 'Expected wait to be a duration of at least 0ms and at most 24d, got null'],
  [{ token: '' }, 'Expected token to be a non-empty string, got "" (string)'],
  [{ signal: {} }, 'Expected signal to be an AbortSignal, got an object (Object)'],
  [{ tll: '30s' }, 'leases.acquire has no option "tll": did you mean "ttl"?'],
])('leases.acquire refuses the options %j, and nothing is leased', async (options, message) => {
  const [a] = await pair('options')
  expect((await caught(UsageError, a.leases.acquire('name', options))).message).toBe(message)
  expect(await leaseRow(fresh.url, a.locks.key('name'))).toBeUndefined()
})

test.each<[string, unknown]>([
  ['an empty string', ''],
  ['501 characters', 'x'.repeat(501)],
  ['a zero byte', 'zero\0byte'],
  ['undefined', undefined],
  ['a number', 42],
])('leases.acquire refuses %s as a name', async (_, name) => {
  const [a] = await pair('names')
  const error = await caught(UsageError, a.leases.acquire(name as never))
  expect(error.message).toContain('Expected name to be a string of 1 to 500 characters')
})

test('leases.acquire adds the name to the registry of names', async () => {
  const [a] = await pair('registry')
  await using lease = await a.leases.acquire('seen by people')
  await until('the name is registered', async () => {
    const [row] = await sql(fresh.url, 'select label, namespace from holdfast.name where key = $1', [lease.key])
    return row?.label === 'seen by people' && row.namespace === 'registry'
  })
})

describe('close', () => {
  test('close releases held leases and aborts their signals', async () => {
    const a = await Holdfast.open({ url: fresh.url, namespace: 'closing' })
    const leases = await Promise.all(['one', 'two'].map((name) => a.leases.acquire(name)))
    await a.close()
    for (const lease of leases) {
      expect(lease.held).toBe(false)
      expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
      expect(lease.signal.reason.cause).toBeInstanceOf(ClosedError)
      expect(await leaseRow(fresh.url, lease.key)).toBeUndefined()
    }
    await caught(ClosedError, a.leases.acquire('three'))
  })

  test('close releases leases that are granted during close', async () => {
    const names = Array.from({ length: 20 }, (_, at) => `during close ${at}`)
    for (const anchor of ['required', 'none'] as const) {
      const a = await Holdfast.open({ url: fresh.url, namespace: 'closing', anchor })
      const blocker = await sqlSession(fresh.url)
      await blocker.query('begin; lock table holdfast.lease in access exclusive mode')
      const acquiring = names.map((name) => a.leases.acquire(name).catch((error) => error))
      await until('the requests wait in the database', async () => {
        const { rowCount } = await blocker.query(
          "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        )
        return rowCount === 1
      })
      const closing = a.close()
      await blocker.query('commit')
      await closing
      for (const outcome of acquiring) expect(await outcome).toBeInstanceOf(ClosedError)
      expect(await leasedNames(fresh.url, a.id)).toBe(0)
    }
  })

  test('close rejects waiting requests', async () => {
    const [a] = await pair('closing')
    await using _held = await a.leases.acquire('waited for')
    const b = await Holdfast.open({ url: fresh.url, namespace: 'closing' })
    const waiting = b.leases.acquire('waited for').catch((error) => error)
    await until(
      'the wait is in the database',
      async () => (await leaseRow(fresh.url, a.locks.key('waited for')))!.hasWaiters,
    )
    await b.close()
    expect(await waiting).toBeInstanceOf(ClosedError)
  })
})

test('leases work if the default isolation level of the database is serializable', async () => {
  const strict = await freshDatabase()
  try {
    const { pathname } = new URL(strict.url)
    await sql(strict.url, `alter database ${pathname.slice(1)} set default_transaction_isolation = 'serializable'`)
    const instances = [1, 2, 3].map(() => open({ url: strict.url, anchor: 'none' }))
    let inside = 0
    const rounds = (await Promise.all(instances)).flatMap((instance) =>
      Array.from({ length: 10 }, () =>
        instance.leases.with('name', async (lease) => {
          expect(++inside).toBe(1)
          await lease.extend()
          inside--
        }),
      ),
    )
    await within(20_000, 'the rounds', Promise.all(rounds))
  } finally {
    await strict.drop()
  }
})
