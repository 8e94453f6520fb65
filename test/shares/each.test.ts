// Tests rounds: the first instance that claims a resource handles it, and each resource is handled once.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClosedError, type HoldfastOptions, ResourcesFailedError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlPool, stays, until, within } from '../setup/facts.js'
import { anchorPid, open, openFleet } from '../setup/instances.js'
import { heldLocks, untilNoLocks } from '../setup/locking.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const fleet = (size: number, options?: Partial<HoldfastOptions>) => openFleet(fresh.url, size, options)

const cities = Array.from({ length: 60 }, (_, i) => `city ${i}`)

describe.each<[string, Partial<HoldfastOptions>]>([
  ['by locks', {}],
  ['by leases', { anchor: 'none', expiry: '2s' }],
])('shares.each %s', (_, options) => {
  test('several instances handle each resource once', async () => {
    const instances = await fleet(3, options)
    const work = new Map<string, number>()
    const working = new Set<string>()
    const results = await Promise.all(
      instances.map(({ id, shares }) =>
        shares.each('cities', cities, async (city, { held, fence, signal }) => {
          expect(held).toBe(true)
          expect(signal.aborted).toBe(false)
          expect(fence).toBeGreaterThan(0)
          work.set(city, (work.get(city) ?? 0) + 1)
          working.add(id)
          await until('all instances are working', () => working.size === instances.length)
        }),
      ),
    )
    expect([...work.keys()].sort()).toEqual([...cities].sort())
    expect([...work.values()].filter((times) => times !== 1)).toEqual([])
    expect(results.flatMap(({ done }) => done).sort()).toEqual([...cities].sort())
    for (const { done, skipped } of results) {
      expect(done.concat(skipped).sort()).toEqual([...cities].sort())
      expect(done.length).toBeGreaterThan(0)
    }
  })

  test('a late instance skips handled resources, and a later round handles them again', async () => {
    const [a, b] = await fleet(2, options)
    const first = await a!.shares.each('late', cities, { window: '1m' }, () => {})
    expect(first.skipped).toEqual([])
    expect(await b!.shares.each('late', cities, () => expect.unreachable())).toMatchObject({ done: [] })
    const again = await b!.shares.each('late', cities, { window: 0 }, () => {})
    expect(again.done).toHaveLength(cities.length)
  })

  test('a named round handles each resource once, independently of the time of the call', async () => {
    const [a, b] = await fleet(2, options)
    const round = new Date('2026-11-21T12:00:00Z')
    expect((await a!.shares.each('named', cities, { round }, () => {})).done).toHaveLength(60)
    await sql(
      fresh.url,
      "update holdfast.share_done set started_at = now() - interval '3 days', done_at = now() - interval '3 days'",
    )
    const late = await b!.shares.each('named', [...cities, 'new'], { round: '2026-11-21T12:00:00.000Z' }, () => {})
    expect(late.done).toEqual(['new'])
    expect((await b!.shares.each('named', cities, { round: 'another' }, () => {})).done).toHaveLength(60)
  })

  test('a failed resource rejects the call after all other resources, and is handled by the next call', async () => {
    const [a, b] = await fleet(2, options)
    const failing = new Set(['city 7', 'city 8'])
    const error = await caught(
      ResourcesFailedError,
      a!.shares.each('failing', cities, (city) => {
        if (failing.has(city)) throw new Error(`no map of ${city}`)
      }),
    )
    expect(error).toMatchObject({ code: 'RESOURCES_FAILED', share: 'failing', retryable: true })
    expect(error.message).toMatch(
      /^2 of 60 resources of "failing" failed, starting with "city [78]": no map of city [78]$/,
    )
    expect(error.failed.map(({ resource }) => resource).sort()).toEqual(['city 7', 'city 8'])
    expect(error.done).toHaveLength(58)
    const retried = await b!.shares.each('failing', cities, () => {})
    expect(retried.done.sort()).toEqual(['city 7', 'city 8'])
  })

  test('waitForOthers: false skips resources that another instance is handling', async () => {
    const [a, b] = await fleet(2, options)
    let finish = () => {}
    let start = () => {}
    const started = new Promise<void>((resolve) => {
      start = resolve
    })
    const slow = a!.shares.each('busy', ['x'], () => {
      start()
      return new Promise<void>((resolve) => {
        finish = resolve
      })
    })
    await started
    const withoutWait = await b!.shares.each('busy', ['x', 'y'], { waitForOthers: false }, () => {})
    expect(withoutWait).toEqual({ done: ['y'], skipped: ['x'] })
    // By default, the call waits for the other instance and then skips the resource.
    const waiting = b!.shares.each('busy', ['x'], { window: 0 }, () => expect.unreachable())
    let isOver = false
    void waiting.then(() => {
      isOver = true
    })
    await stays('the call waits', () => !isOver, 300)
    finish()
    expect(await slow).toEqual({ done: ['x'], skipped: [] })
    expect(await within(5_000, 'the waiting call', waiting)).toEqual({ done: [], skipped: ['x'] })
  })

  test('one instance handles as many resources at the same time as concurrency allows', async () => {
    const [a] = await fleet(1, options)
    let [running, maxRunning] = [0, 0]
    const { done } = await a!.shares.each('wide', cities, { concurrency: 8 }, async () => {
      maxRunning = Math.max(maxRunning, ++running)
      await until('eight resources are handled at the same time', () => maxRunning >= 8)
      running--
    })
    expect(maxRunning).toBe(8)
    expect(done).toHaveLength(60)
  })
})

test('two concurrent calls of one instance divide the resources', async () => {
  const [a] = await fleet(1)
  const work: string[] = []
  const call = () => a!.shares.each('same', cities, async (city) => void work.push(city))
  const [first, second] = await Promise.all([call(), call()])
  expect(work.sort()).toEqual([...cities].sort())
  expect(first.done.length + second.done.length).toBe(60)
})

test('1,000 resources need fewer than 300 statements', async () => {
  const [a] = await fleet(1)
  const many = Array.from({ length: 1_000 }, (_, i) => `r${i}`)
  await sql(fresh.url, 'select pg_stat_statements_reset()')
  const from = performance.now()
  await a!.shares.each('many', many, () => {})
  const tookMs = performance.now() - from
  const [row] = await sql<{ calls: number }>(
    fresh.url,
    `select sum(calls)::int as calls from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database()) and toplevel`,
  )
  console.log(`1,000 resources: ${row!.calls} statements, ${tookMs.toFixed(0)} ms`)
  expect(row!.calls).toBeLessThan(300)
})

test('an abort aborts running handlers, starts no other handlers and leaves no locks', async () => {
  const [a] = await fleet(1)
  const controller = new AbortController()
  const work: string[] = []
  const reason = new Error('enough')
  const call = a!.shares.each('aborted', cities, { signal: controller.signal }, async (city, { signal }) => {
    work.push(city)
    if (work.length === 5) controller.abort(reason)
    signal.throwIfAborted()
  })
  expect(await call.catch((error) => error)).toBe(reason)
  expect(work).toHaveLength(5)
  await untilNoLocks(fresh.url)
  const later = await a!.shares.each('aborted', cities, () => {})
  expect(later.done).toHaveLength(56)
  await caught(
    Error,
    a!.shares.each('aborted', cities, { signal: controller.signal }, () => {}),
  )
})

test('a resource whose lock is lost during the work is not recorded and is handled again', async () => {
  const [a] = await fleet(1)
  const work: string[] = []
  const { done } = await a!.shares.each('lost', ['x', 'y'], async (resource, { signal }) => {
    work.push(resource)
    if (work.length > 1) return
    await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, a!)])
    await until('the signal is aborted', () => signal.aborted)
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST' })
  })
  expect(done.sort()).toEqual(['x', 'y'])
  expect(work).toHaveLength(3)
})

test('a record with an older fence is refused', async () => {
  const [a] = await fleet(1)
  await a!.shares.each('fenced', ['x', 'y'], async (resource) => {
    if (resource === 'x') {
      // A later holder has handled the resource in the meantime.
      await sql(
        fresh.url,
        `insert into holdfast.share_done values ($1, 'fenced', '', 'x', 'later', 9007199254740991, now(), now())`,
        [a!.namespace],
      )
    }
  })
  expect(
    await sql(fresh.url, "select resource, instance from holdfast.share_done where share = 'fenced' order by 1"),
  ).toEqual([
    { resource: 'x', instance: 'later' },
    { resource: 'y', instance: a!.id },
  ])
})

test('a record that reaches the server after the session has ended is refused, and the resource is handled again', async () => {
  const pool = sqlPool({ connectionString: fresh.url })
  const holdfast = await open({ pool, namespace: 'late record' })
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<unknown>
  let wasLate = false
  // The instance holds the lock when it sends the record. The server terminates the session before the record arrives.
  pool.query = (async (...given: unknown[]) => {
    const text = typeof given[0] === 'string' ? given[0] : (given[0] as { text: string }).text
    if (!wasLate && text.includes('insert into holdfast.share_done')) {
      wasLate = true
      const pid = await anchorPid(fresh.url, holdfast)
      await sql(fresh.url, 'select pg_terminate_backend($1)', [pid])
      await until('the session has ended', async () => {
        const rows = await sql(fresh.url, 'select from pg_stat_activity where pid = $1', [pid])
        return rows.length === 0
      })
    }
    return query(...given)
  }) as never
  const fences: number[] = []
  const { done } = await holdfast.shares.each('late', ['x'], (_, { fence }) => void fences.push(fence))
  expect(wasLate).toBe(true)
  expect(done).toEqual(['x'])
  expect(fences).toHaveLength(2)
  const rows = await sql(
    fresh.url,
    "select fence::float8 as fence from holdfast.share_done where namespace = 'late record'",
  )
  expect(rows).toEqual([{ fence: fences[1] }])
})

test('close rejects running calls and releases their locks', async () => {
  const [a] = await fleet(1)
  const call = a!.shares.each('closing', cities, async (_, { signal }) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  call.catch(() => {})
  await until('a handler is running', async () => (await heldLocks(fresh.url)) > 0)
  await within(5_000, 'close', a!.close())
  await caught(ClosedError, call)
  await caught(
    ClosedError,
    a!.shares.each('closing', cities, () => {}),
  )
  await untilNoLocks(fresh.url)
})

test('names with slashes are not confused', async () => {
  const [a, b] = await fleet(2)
  let inner: unknown
  await a!.shares.each('a/b', ['c'], async () => {
    // The inner call would skip a resource if it had the same name as the outer one.
    inner = await b!.shares.each('a', ['b/c', '%2Fc', 'b%2Fc'], { waitForOthers: false }, () => {})
  })
  expect(inner).toMatchObject({ skipped: [] })
})

test('shares.each accepts an empty list and duplicate resources', async () => {
  const [a] = await fleet(1)
  expect(await a!.shares.each('nothing', [], () => {})).toEqual({ done: [], skipped: [] })
  expect(await a!.shares.each('twice', ['x', 'x'], () => {})).toEqual({ done: ['x'], skipped: [] })
})

test.each<[unknown[], string]>([
  [['', [], () => {}], 'Expected the share to be a string of 1 to 500 characters without zero bytes, got "" (string)'],
  [['a', 'london', () => {}], 'Expected the resources to be an array, got "london" (string)'],
  [['a', ['x', 7], () => {}], 'Expected a resource to be a string of 1 to 500 characters without zero bytes, got 7'],
  [['a', ['x'.repeat(499)], () => {}], 'Expected a resource name including its prefix to be a string of 1 to 500'],
  [['a', ['x']], 'Expected the last argument of shares.each to be a function, got undefined'],
  [['a', ['x'], { rond: 'x' }, () => {}], 'shares.each has no option "rond": did you mean "round"?'],
  [['a', ['x'], { round: 7 }, () => {}], 'Expected round to be a string of 1 to 500 characters or a valid Date, got 7'],
  [['a', ['x'], { round: new Date('x') }, () => {}], 'Expected round to be a string of 1 to 500 characters or a valid'],
  [['a', ['x'], { round: 'r', window: '1s' }, () => {}], 'Expected either round or window, got both'],
  [
    ['a', ['x'], { window: '2d' }, () => {}],
    'Expected window to be a duration of at least 0ms and at most 1d, got "2d"',
  ],
  [['a', ['x'], { concurrency: 0 }, () => {}], 'Expected concurrency to be a whole number between 1 and 1000, got 0'],
  [['a', ['x'], { waitForOthers: 'yes' }, () => {}], 'Expected waitForOthers to be true or false, got "yes" (string)'],
  [['a', ['x'], { signal: {} }, () => {}], 'Expected signal to be an AbortSignal, got an object (Object)'],
])('shares.each refuses the arguments %j', async (given, message) => {
  const [a] = await fleet(1)
  const each = a!.shares.each.bind(a!.shares) as (...given: unknown[]) => Promise<unknown>
  expect((await caught(UsageError, each(...given))).message).toContain(message)
})

test('records of rounds are deleted after a week', async () => {
  const [a] = await fleet(1)
  await a!.shares.each('swept', ['old', 'young'], () => {})
  await sql(fresh.url, "update holdfast.share_done set done_at = now() - interval '8 days' where resource = 'old'")
  const now = performance.now.bind(performance)
  // An instance sweeps one hour after its previous sweep.
  performance.now = () => now() + 3_600_000
  try {
    // A new instance has no running timers.
    const [b] = await fleet(1)
    performance.now = () => now() + 7_200_000
    await b!.shares.each('sweeps', ['x'], () => {})
  } finally {
    performance.now = now
  }
  await until('the old record is deleted', async () => {
    const rows = await sql(fresh.url, "select resource from holdfast.share_done where share = 'swept'")
    return rows.length === 1
  })
})
