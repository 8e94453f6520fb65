// Tests all methods that acquire locks, in both modes, between two instances and within one instance.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Holdfast, LockTimeoutError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { heldLocks, untilNoLocks, untilWaiting } from '../setup/locking.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function pair(where: string): Promise<[Holdfast, Holdfast]> {
  const first = await open({ url: fresh.url, namespace: where })
  return [first, where === 'one instance' ? first : await open({ url: fresh.url, namespace: where })]
}

describe.each(['two instances', 'one instance'])('locks of %s', (where) => {
  test.each([
    ['exclusive', 'exclusive', false],
    ['exclusive', 'shared', false],
    ['shared', 'exclusive', false],
    ['shared', 'shared', true],
  ] as const)('%s and %s at the same time: %s', async (held, requested, both) => {
    const [a, b] = await pair(where)
    const name = `${held} ${requested}`
    const first = await a.locks.acquire(name, { mode: held })
    const second = await b.locks.tryAcquire(name, { mode: requested })
    expect(second !== null).toBe(both)
    await second?.release()
    if (!both) {
      expect(await b.locks.tryAcquire(name, { mode: requested, wait: 20 })).toBeNull()
      const error = await caught(LockTimeoutError, b.locks.acquire(name, { mode: requested, wait: '20ms' }))
      expect(error).toMatchObject({ lock: name, code: 'LOCK_TIMEOUT', retryable: true })
      expect(error.waitedMs).toBeGreaterThanOrEqual(19)
      const none = await caught(LockTimeoutError, b.locks.acquire(name, { mode: requested, wait: 0 }))
      expect(none.lock).toBe(name)
    }
    await first.release()
    await using third = await b.locks.acquire(name, { mode: requested, wait: 0 })
    expect(third).toMatchObject({ name, names: [name], mode: requested, held: true })
    expect(third.fence).toBeGreaterThan(first.fence)
  })

  test('a waiter gets the lock when the holder releases it', async () => {
    const [a, b] = await pair(where)
    const first = await a.locks.acquire('handed on')
    const waiting = b.locks.acquire('handed on')
    if (where === 'two instances') await untilWaiting(fresh.url, first.keys[0]!)
    await first.release()
    await using second = await waiting
    expect(second.fence).toBeGreaterThan(first.fence)
  })

  test('waiters get the lock in the order of their requests', async () => {
    const [a, b] = await pair(where)
    const first = await a.locks.acquire('in order')
    const order: number[] = []
    const waiting = [1, 2, 3, 4].map((place) => b.locks.with('in order', () => order.push(place)))
    await first.release()
    await Promise.all(waiting)
    expect(order).toEqual([1, 2, 3, 4])
  })
})

test('a request does not cost more while many requests wait for the same name', async () => {
  const [a, b] = await pair('long queue')
  await using held = await b.locks.acquire('long queue')
  const waiting = [a.locks.acquire('long queue')]
  await untilWaiting(fresh.url, held.keys[0]!)
  const from = performance.now()
  for (let i = 0; i < 20_000; i++) waiting.push(a.locks.acquire('long queue'))
  await new Promise(setImmediate)
  const tookMs = performance.now() - from
  const outcomes = Promise.allSettled(waiting)
  await a.close()
  expect((await outcomes).every(({ status }) => status === 'rejected')).toBe(true)
  expect(tookMs).toBeLessThan(3_000)
})

test('release frees all names of a lock on the server', async () => {
  const [a] = await pair('leftovers')
  const lock = await a.locks.acquire(['one', 'two', 'three'])
  expect(lock.keys).toHaveLength(3)
  for (const key of lock.keys) expect(await heldLocks(fresh.url, key)).toBe(1)
  await lock.release()
  for (const key of lock.keys) expect(await heldLocks(fresh.url, key)).toBe(0)
})

describe('locks.with', () => {
  test('locks.with passes the lock to the handler, returns its result and releases the lock', async () => {
    const [a, b] = await pair('with')
    const result = await a.locks.with('job', { wait: '1s' }, async (lock) => {
      expect(lock).toMatchObject({ name: 'job', mode: 'exclusive', held: true })
      expect(lock.signal.aborted).toBe(false)
      expect(await b.locks.tryAcquire('job')).toBeNull()
      return lock.fence
    })
    expect(result).toBeGreaterThan(0)
    await using _lock = await b.locks.acquire('job', { wait: 0 })
  })

  test('locks.with releases the lock if the handler throws, and throws the same error', async () => {
    const [a, b] = await pair('with')
    const reason = new Error('no')
    await expect(a.locks.with('throwing', () => Promise.reject(reason))).rejects.toBe(reason)
    await expect(
      a.locks.with('throwing', () => {
        throw reason
      }),
    ).rejects.toBe(reason)
    await using _lock = await b.locks.acquire('throwing', { wait: 0 })
  })

  test('locks.with does not run the handler if the wait times out', async () => {
    const [a, b] = await pair('with')
    await using _lock = await a.locks.acquire('taken')
    let ran = false
    const work = b.locks.with('taken', { wait: 10 }, () => {
      ran = true
    })
    await caught(LockTimeoutError, work)
    expect(ran).toBe(false)
  })

  test.each([
    [['name'], 'a function, got undefined'],
    [['name', { wait: 1 }], 'a function, got an object (Object)'],
    [['name', { wait: 1 }, undefined], 'a function, got undefined'],
    [['name', 'not a function'], 'a function, got "not a function" (string)'],
  ])('locks.with refuses the arguments %j', async (given, message) => {
    const [a] = await pair('with')
    const work = (a.locks.with as (...given: unknown[]) => Promise<unknown>)(...given)
    expect((await caught(UsageError, work)).message).toContain(message)
  })
})

describe('a request for several names', () => {
  test('a request locks all of its names or none', async () => {
    const [a, b] = await pair('several')
    await using _held = await a.locks.acquire('middle')
    expect(await b.locks.tryAcquire(['first', 'middle', 'last'])).toBeNull()
    expect(await b.locks.tryAcquire(['first', 'middle', 'last'], { wait: 30 })).toBeNull()
    const error = await caught(LockTimeoutError, b.locks.acquire(['first', 'middle', 'last'], { wait: 30 }))
    expect(error.lock).toBe('first, middle, last')
    await using _others = await a.locks.acquire(['first', 'last'], { wait: 0 })
  })

  test('a lock has its names in the order of the caller, and locks a repeated name once', async () => {
    const [a] = await pair('several')
    await using lock = await a.locks.acquire(['b', 'a', 'b', 'c'])
    expect(lock.keys).toHaveLength(3)
    expect(lock.name).toBe('b, a, b, c')
    expect([...lock.keys].sort()).toEqual(['a', 'b', 'c'].map((name) => a.locks.key(name)).sort())
  })

  test('a lock has the largest fence of its names, so that it exceeds the fence of each earlier holder', async () => {
    const [a, b] = await pair('several')
    const earlier = await a.locks.acquire('y')
    await earlier.release()
    await using lock = await b.locks.acquire(['x', 'y', 'z'])
    expect(lock.fence).toBeGreaterThan(earlier.fence)
  })

  test('requests of two instances for the same names in opposite orders all succeed', async () => {
    const [a, b] = await pair('orders')
    const names = ['k1', 'k2', 'k3', 'k4', 'k5']
    let inside = 0
    const round = (instance: Holdfast, order: string[]) =>
      instance.locks.with(order, { wait: '20s' }, async () => {
        expect(++inside).toBe(1)
        await sql(fresh.url, 'select 1')
        inside--
      })
    const rounds = Array.from({ length: 15 }, () => [round(a, names), round(b, [...names].reverse())]).flat()
    await Promise.all(rounds)
  })

  test('a request without names is refused', async () => {
    const [a] = await pair('several')
    expect((await caught(UsageError, a.locks.acquire([]))).message).toBe(
      'Expected at least one name, got an empty array',
    )
  })
})

describe('names of locks', () => {
  test.each(['Straße 東京 🚀', ' ', 'x'.repeat(500), 'with \'quotes\' and "those"', '{a,b}', 'NULL', '\\'])(
    '%j can be locked, and is in the registry of names',
    async (name) => {
      const [a, b] = await pair('names')
      await using lock = await a.locks.acquire(name)
      expect(await b.locks.tryAcquire(name)).toBeNull()
      await until('the name is registered', async () => {
        const rows = await sql(
          fresh.url,
          "select from holdfast.name where key = $1 and label = $2 and namespace = 'names'",
          [lock.keys[0], name],
        )
        return rows.length === 1
      })
    },
  )

  test.each<[unknown, string]>([
    ['', '""'],
    ['x'.repeat(501), '"xxx'],
    ['zero\0byte', '"zero'],
    [undefined, 'undefined'],
    [null, 'null'],
    [42, '42 (number)'],
    [['a', ''], '""'],
    [[['a']], 'an array'],
  ])('%j is refused as a name', async (name, shown) => {
    const [a] = await pair('names')
    for (const request of [a.locks.acquire(name as never), a.locks.tryAcquire(name as never)]) {
      const error = await caught(UsageError, request)
      expect(error.message).toContain('Expected name to be a string of 1 to 500 characters')
      expect(error.message).toContain(`got ${shown}`)
    }
  })

  test('the same name in two namespaces can be locked twice', async () => {
    const a = await open({ url: fresh.url, namespace: 'a' })
    const b = await open({ url: fresh.url, namespace: 'b' })
    await using _one = await a.locks.acquire('same')
    await using _other = await b.locks.acquire('same', { wait: 0 })
  })

  test('plain SQL can use the lock with holdfast.lock_key', async () => {
    const [a] = await pair('twin')
    const client = await sqlSession(fresh.url)
    const key = "holdfast.lock_key('twin', 'nightly')"
    await client.query(`select pg_advisory_lock(${key})`)
    expect(await a.locks.tryAcquire('nightly')).toBeNull()
    await client.query(`select pg_advisory_unlock(${key})`)
    await using _lock = await a.locks.acquire('nightly', { wait: 0 })
    const { rows } = await client.query(`select pg_try_advisory_lock(${key}) as got`)
    expect(rows).toEqual([{ got: false }])
  })
})

describe('key spaces and pairs', () => {
  test('a key space has the same base in all instances, and its numbers are separate locks', async () => {
    const [a, b] = await pair('spaces')
    const [ours, theirs] = await Promise.all([a.locks.space('steps'), b.locks.space('steps')])
    expect(theirs.at(3)).toEqual(ours.at(3))
    await using _lock = await a.locks.acquire(ours.at(3))
    expect(await b.locks.tryAcquire(theirs.at(3))).toBeNull()
    await using _next = await b.locks.acquire(theirs.at(4), { wait: 0 })
  })

  test('a key space that two sessions create at the same time has the base of the session that commits first', async () => {
    const [a] = await pair('spaces')
    const other = await sqlSession(fresh.url)
    await other.query('begin')
    await other.query("insert into holdfast.key_space (namespace, space, base) values ('spaces', 'at once', 1048576)")
    const opening = a.locks.space('at once')
    await until('the request waits for the other session', async () => {
      const waits = await sql(
        fresh.url,
        "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
      )
      return waits.length > 0
    })
    await other.query('commit')
    expect((await opening).at(5).key).toBe('1048581')
  })

  test('a pair is the same lock in all namespaces, and can be combined with names', async () => {
    const [a] = await pair('pairs a')
    const [b] = await pair('pairs b')
    await using lock = await a.locks.acquire([a.locks.pair(-7, 42), 'a name'])
    expect(lock.name).toBe('-7/42, a name')
    expect(await b.locks.tryAcquire(b.locks.pair(-7, 42))).toBeNull()
  })

  test('an invalid number of a key space or pair is refused', async () => {
    const [a] = await pair('spaces')
    const space = await a.locks.space('numbers')
    expect(() => space.at(2 ** 20)).toThrow(UsageError)
    expect(() => a.locks.pair(2 ** 31, 0)).toThrow(UsageError)
    await caught(UsageError, a.locks.space(''))
  })
})

test('an invalid option is refused, and nothing is locked', async () => {
  const [a] = await pair('options')
  const wrong = { wiat: '5s' } as never
  expect((await caught(UsageError, a.locks.acquire('name', wrong))).message).toBe(
    'locks.acquire has no option "wiat": did you mean "wait"?',
  )
  expect(await caught(UsageError, a.locks.tryAcquire('name', { mode: 'read' as never }))).toBeInstanceOf(UsageError)
  expect(await heldLocks(fresh.url, a.locks.key('name'))).toBe(0)
})

test('no lock remains after the tests', async () => {
  await untilNoLocks(fresh.url)
})
