// Tests semaphores: all methods that acquire permits, within one instance and between two.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClosedError, DatabaseUnreachableError, type Holdfast, LimitReachedError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { nothingInUse, untilQueued } from './facts.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function pair(where: string): Promise<[Holdfast, Holdfast]> {
  const first = await open({ url: fresh.url, namespace: where })
  return [first, where === 'one instance' ? first : await open({ url: fresh.url, namespace: where })]
}

describe.each(['two instances', 'one instance'])('permits of %s', (where) => {
  test('a limit grants max permits, and the next request throws LimitReachedError', async () => {
    const [a, b] = await pair(where)
    const permits = [
      await a.limits.acquire('gpu', { max: 3 }),
      await b.limits.acquire('gpu', { max: 3 }),
      await b.limits.acquire('gpu', { max: 3 }),
    ]
    expect(await a.limits.tryAcquire('gpu', { max: 3 })).toBeNull()
    const error = await caught(LimitReachedError, b.limits.acquire('gpu', { max: 3 }))
    expect(error).toMatchObject({ limit: 'gpu', code: 'LIMIT_REACHED', max: 3, inUse: 3, waiting: 0, retryable: true })
    expect(error.message).toMatch(/^The limit "gpu" has been reached: 3 of 3 in use, the oldest by \S+ for [\d.]+m?s$/)
    expect(error.since!.getTime()).toBeGreaterThan(Date.now() - 60_000)
    await permits[1]!.release()
    await using again = await a.limits.acquire('gpu', { max: 3 })
    expect(again).toMatchObject({ name: 'gpu', weight: 1, held: true })
    expect(again.fence).toBeGreaterThan(Math.max(...permits.map(({ fence }) => fence)))
    for (const permit of permits) await permit.release()
  })

  test('waiting requests get permits in the order of their arrival', async () => {
    const [a, b] = await pair(where)
    const first = await a.limits.acquire('in order', { max: 1 })
    const order: number[] = []
    const waiting: Promise<unknown>[] = []
    for (const [place, instance] of [a, b, b, a, b, a].entries()) {
      waiting.push(instance.limits.with('in order', { max: 1, wait: '20s' }, () => order.push(place)))
      await untilQueued(fresh.url, 'in order', place + 1, where)
    }
    await first.release()
    await within(10_000, 'the waiting requests', Promise.all(waiting))
    expect(order).toEqual([0, 1, 2, 3, 4, 5])
  })

  test('a permit uses its weight, and lighter requests do not overtake a waiting heavier request', async () => {
    const [a, b] = await pair(where)
    const limit = { max: 4 }
    const two = await a.limits.acquire('weights', { ...limit, weight: 2 })
    const one = await b.limits.acquire('weights', limit)
    expect(await b.limits.tryAcquire('weights', { ...limit, weight: 2 })).toBeNull()
    const heavy = b.limits.acquire('weights', { ...limit, weight: 4, wait: '20s' })
    await untilQueued(fresh.url, 'weights', 1, where)
    // One more permit would fit, but a request is already waiting.
    const error = await caught(LimitReachedError, a.limits.acquire('weights', limit))
    expect(error).toMatchObject({ inUse: 3, waiting: 1 })
    expect(error.message).toContain('3 of 4 in use')
    expect(error.message).toContain(', and 1 waiting')
    const light = a.limits.acquire('weights', { ...limit, wait: '20s' })
    await two.release()
    await one.release()
    const granted = await within(5_000, 'the heavier request', heavy)
    expect(granted).toMatchObject({ weight: 4, held: true })
    await granted.release()
    await (await within(5_000, 'the lighter request', light)).release()
  })

  test('a wait that times out reports its duration and leaves the queue', async () => {
    const [a, b] = await pair(where)
    const held = await a.limits.acquire('short wait', { max: 1 })
    const error = await caught(LimitReachedError, b.limits.acquire('short wait', { max: 1, wait: '120ms' }))
    expect(error.waitedMs).toBeGreaterThanOrEqual(119)
    expect(error).toMatchObject({ inUse: 1, waiting: 0 })
    expect(error.message).toMatch(
      /^The limit "short wait" has been reached after [\d.]+m?s of waiting: 1 of 1 in use, the oldest/,
    )
    expect(await b.limits.tryAcquire('short wait', { max: 1, wait: 60 })).toBeNull()
    await held.release()
    await using _next = await b.limits.acquire('short wait', { max: 1 })
  })

  test('a wait that times out counts only the requests that waited before it', async () => {
    const [a, b] = await pair(where)
    const held = await a.limits.acquire('earlier', { max: 3, weight: 3 })
    const earlier = a.limits.acquire('earlier', { max: 3, wait: '20s' })
    await untilQueued(fresh.url, 'earlier', 1, where)
    const timedOut = caught(LimitReachedError, b.limits.acquire('earlier', { max: 3, wait: '500ms' }))
    await untilQueued(fresh.url, 'earlier', 2, where)
    const later = [a, b].map((instance) => instance.limits.acquire('earlier', { max: 3, wait: '20s' }))
    await untilQueued(fresh.url, 'earlier', 4, where)
    expect(await timedOut).toMatchObject({ inUse: 3, waiting: 1 })
    await held.release()
    for (const permit of await Promise.all([earlier, ...later])) await permit.release()
  })

  test('an aborted wait rejects with the reason and leaves the queue', async () => {
    const [a, b] = await pair(where)
    const held = await a.limits.acquire('aborted', { max: 1 })
    const abort = new AbortController()
    const waiting = b.limits.acquire('aborted', { max: 1, wait: '20s', signal: abort.signal })
    const next = a.limits.acquire('aborted', { max: 1, wait: '20s' })
    await untilQueued(fresh.url, 'aborted', 2, where)
    const reason = new Error('changed my mind')
    abort.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    await held.release()
    await (await within(5_000, 'the next request', next)).release()
    await expect(b.limits.acquire('aborted', { max: 1, signal: abort.signal })).rejects.toBe(reason)
  })
})

test('a wait that is aborted with a DatabaseUnreachableError rejects with this error', async () => {
  const [a] = await pair('aborted with an outage')
  await using _held = await a.limits.acquire('x', { max: 1 })
  const abort = new AbortController()
  const waiting = a.limits.acquire('x', { max: 1, wait: '20s', signal: abort.signal })
  await untilQueued(fresh.url, 'x', 1, 'aborted with an outage')
  let checks = 0
  // A loop of microtasks would block all timers, so the reason itself ends such a loop.
  const reason = new Proxy(new DatabaseUnreachableError('another call failed'), {
    getPrototypeOf(target) {
      if (++checks > 1_000) throw new Error('The call treats the reason as an outage and retries forever')
      return Reflect.getPrototypeOf(target)
    },
  })
  abort.abort(reason)
  expect(await waiting.catch((error) => error)).toBe(reason)
})

describe('a cancelled statement', () => {
  /** Cancels the statement that decides a request. A table lock keeps the statement waiting until then. */
  async function withCancelledStatement<T>(send: () => Promise<T>): Promise<T> {
    const blocker = await sqlSession(fresh.url)
    await blocker.query('begin')
    await blocker.query('lock table holdfast.permit in access exclusive mode')
    const sent = send()
    sent.catch(() => {})
    await until('the statement is cancelled', async () => {
      // A transaction would see the same activity in each check, so this query uses another session.
      const cancelled = await sql(
        fresh.url,
        `select pg_cancel_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock' and query like '%limit_decide%'`,
      )
      return cancelled.length > 0
    })
    await blocker.query('rollback')
    return sent
  }

  test('a release whose statement is cancelled is sent again', async () => {
    const [a] = await pair('cancelled release')
    const permit = await a.limits.acquire('x', { max: 1 })
    await withCancelledStatement(() => permit.release())
    await using _next = await a.limits.acquire('x', { max: 1, wait: '5s' })
  })

  test('an aborted wait leaves the queue, also if the first statement that cancels its request is cancelled', async () => {
    const [a] = await pair('cancelled cancel')
    const permit = await a.limits.acquire('x', { max: 1 })
    const abort = new AbortController()
    const waiting = a.limits.acquire('x', { max: 1, wait: '20s', signal: abort.signal })
    await untilQueued(fresh.url, 'x', 1, 'cancelled cancel')
    const reason = new Error('changed my mind')
    const aborted = withCancelledStatement(() => {
      abort.abort(reason)
      return waiting
    })
    await expect(aborted).rejects.toBe(reason)
    await permit.release()
    await using _next = await a.limits.acquire('x', { max: 1, wait: '5s' })
  })

  test('a waiting request whose statement is cancelled is sent again', async () => {
    const [a] = await pair('cancelled wait')
    await using _permit = await withCancelledStatement(() => a.limits.acquire('x', { max: 1, wait: '20s' }))
  })
})

describe('limits.with', () => {
  test('limits.with passes the permit to the handler, returns its result and releases the permit', async () => {
    const [a, b] = await pair('with')
    const result = await a.limits.with('job', { max: 1 }, async (permit) => {
      expect(permit).toMatchObject({ name: 'job', held: true })
      expect(permit.signal.aborted).toBe(false)
      await caught(
        LimitReachedError,
        b.limits.with('job', { max: 1 }, () => expect.fail('must not run')),
      )
      return permit.fence
    })
    expect(result).toBeGreaterThan(0)
    await using _next = await b.limits.acquire('job', { max: 1 })
  })

  test('limits.with releases the permit if the handler throws, and throws the same error', async () => {
    const [a, b] = await pair('with')
    const reason = new Error('no')
    await expect(a.limits.with('throwing', { max: 1 }, () => Promise.reject(reason))).rejects.toBe(reason)
    await using _next = await b.limits.acquire('throwing', { max: 1 })
  })
})

test('each request uses the max of its own caller', async () => {
  const [a, b] = await pair('rolling deploy')
  const limits = [await a.limits.acquire('x', { max: 2 }), await a.limits.acquire('x', { max: 2 })]
  expect(await a.limits.tryAcquire('x', { max: 2 })).toBeNull()
  const third = await b.limits.acquire('x', { max: 3 })
  for (const permit of [...limits, third]) await permit.release()
})

test('a second release, and a release after close of the instance, have no effect', async () => {
  const [a, b] = await pair('twice')
  const permit = await a.limits.acquire('x', { max: 1 })
  await permit.release()
  await permit.release()
  expect(permit.held).toBe(false)
  const other = await b.limits.acquire('x', { max: 1 })
  await permit.release()
  expect(await a.limits.tryAcquire('x', { max: 1 })).toBeNull()
  await b.close()
  expect(other.held).toBe(false)
  await other.release()
  await using _next = await a.limits.acquire('x', { max: 1 })
})

test('close releases the permits of the instance and rejects its waits', async () => {
  const [a, b] = await pair('closing')
  const held = await a.limits.acquire('x', { max: 1 })
  const elsewhere = await b.limits.acquire('y', { max: 1 })
  const waiting = caught(ClosedError, a.limits.acquire('y', { max: 1, wait: '20s' }))
  await untilQueued(fresh.url, 'y', 1, 'closing')
  await a.close()
  expect((await waiting).message).toBe('This instance was closed during limits.acquire of "y"')
  expect(held.held).toBe(false)
  await using _next = await b.limits.acquire('x', { max: 1 })
  await elsewhere.release()
  await using _own = await b.limits.acquire('y', { max: 1 })
  await caught(ClosedError, a.limits.acquire('x', { max: 1 }))
  await caught(ClosedError, a.limits.consume('x', { rate: '1/s' }))
})

test('usage lists the holders and the waiting requests', async () => {
  const [a, b] = await pair('usage')
  await using held = await a.limits.acquire('gpu', { max: 3, weight: 2 })
  const waiting = b.limits.acquire('gpu', { max: 3, weight: 3, wait: '20s' })
  await untilQueued(fresh.url, 'gpu', 1, 'usage')
  const usage = await b.limits.usage('gpu')
  expect(usage).toMatchObject({
    name: 'gpu',
    inUse: 2,
    holders: [{ instance: a.id, pid: process.pid, weight: 2, max: 3, fence: held.fence }],
    waiters: [{ instance: b.id, pid: process.pid, weight: 3, max: 3 }],
  })
  expect(usage.holders[0]!.since.getTime()).toBeLessThan(usage.waiters[0]!.since.getTime())
  expect(await a.limits.usage('never used')).toEqual({ name: 'never used', inUse: 0, holders: [], waiters: [] })
  await held.release()
  await (await waiting).release()
})

test('a limit is independent of the same name in another namespace and of a lock with the same name', async () => {
  const [a] = await pair('space a')
  const [b] = await pair('space b')
  await using _one = await a.limits.acquire('same', { max: 1 })
  await using _other = await b.limits.acquire('same', { max: 1 })
  await using _lock = await a.locks.acquire('same', { wait: 0 })
  await using _alike = await a.locks.acquire('limit/same', { wait: 0 })
})

test('a locked row of one entity does not delay other entities', async () => {
  const [a, b] = await pair('blocked')
  await (await a.limits.acquire('hot', { max: 10 })).release()
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  await client.query(`select from holdfast.limit_state where name = 'hot' and namespace = 'blocked' for update`)
  const hot = [a, b, a, a].map((instance) => instance.limits.acquire('hot', { max: 10, wait: '1m' }))
  for (const round of [1, 2, 3, 4, 5]) {
    const cold = [a, b].map((instance) => instance.limits.acquire(`cold ${round}`, { max: 2 }))
    const permits = await within(5_000, 'the permits of another entity', Promise.all(cold))
    await Promise.all(permits.map((permit) => permit.release()))
  }
  await client.query('commit')
  const permits = await within(15_000, 'the permits of the locked entity', Promise.all(hot))
  await Promise.all(permits.map((permit) => permit.release()))
})

test('permits and rates are exact if the default isolation level is repeatable read', { timeout: 90_000 }, async () => {
  const database = new URL(fresh.url).pathname.slice(1)
  await sql(fresh.url, `alter database ${database} set default_transaction_isolation = 'repeatable read'`)
  try {
    const [a, b] = await pair('isolation')
    let inside = 0
    const round = (instance: Holdfast) =>
      instance.limits.with('few', { max: 2, wait: '20s' }, async () => {
        expect(++inside).toBeLessThanOrEqual(2)
        // The handler takes some time, so that the check would notice a third holder.
        await sleep(2)
        inside--
      })
    await within(60_000, 'the rounds', Promise.all(Array.from({ length: 20 }, () => [round(a), round(b)]).flat()))
    const decisions = await Promise.all(
      Array.from({ length: 20 }, () => [a, b].map((one) => one.limits.consume('r', { rate: '30/d' }))).flat(),
    )
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(30)
  } finally {
    await sql(fresh.url, `alter database ${database} reset default_transaction_isolation`)
  }
})

describe('invalid arguments of limits', () => {
  test.each<[unknown, unknown, string]>([
    ['', { max: 1 }, 'Expected name to be a string of 1 to 500 characters'],
    ['x', undefined, 'Expected max to be a whole number between 1 and 1000000000, got undefined'],
    ['x', {}, 'Expected max to be a whole number between 1 and 1000000000, got undefined'],
    ['x', { max: 0 }, 'Expected max to be a whole number between 1 and 1000000000, got 0 (number)'],
    ['x', { max: 1.5 }, 'Expected max to be a whole number between 1 and 1000000000, got 1.5 (number)'],
    ['x', { max: 2, weight: 3 }, 'Expected weight to be at most the max of 2, got 3, which can never be granted'],
    ['x', { max: 2, wieght: 1 }, 'limits.acquire has no option "wieght": did you mean "weight"?'],
    ['x', { max: 2, wait: 'soon' }, 'Expected wait to be a duration of at least 0ms'],
    ['x', { max: 2, signal: 1 }, 'Expected signal to be an AbortSignal, got 1 (number)'],
  ])('limits.acquire refuses (%j, %j)', async (name, options, message) => {
    const [a] = await pair('mistakes')
    const error = await caught(UsageError, a.limits.acquire(name as never, options as never))
    expect(error.message).toContain(message)
  })

  test('limits.with refuses a call without a function', async () => {
    const [a] = await pair('mistakes')
    const error = await caught(UsageError, a.limits.with('x', { max: 1 }, undefined as never))
    expect(error.message).toBe('Expected the last argument of limits.with to be a function, got undefined')
  })
})

test('no permit remains after the tests', async () => {
  await until('nothing is in use', () => nothingInUse(fresh.url))
})
