// Tests rate limits, which are exact by the clock of the database.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hashedKey } from '../../src/base/index.js'
import { type Holdfast, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'

let fresh: FreshDatabase
let a: Holdfast
let b: Holdfast
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

async function pair(): Promise<void> {
  a = await open({ url: fresh.url })
  b = await open({ url: fresh.url })
}

/** Returns the time at which the whole burst is available again. */
async function fullAt(name: string): Promise<bigint> {
  const [row] = await sql<{ full_at: string }>(fresh.url, 'select full_at from holdfast.rate where name = $1', [name])
  return BigInt(row!.full_at)
}

test('consume allows a burst and then refuses with retryAfterMs', async () => {
  await pair()
  const limit = { rate: '2/d', burst: 5 } as const
  for (const left of [4, 3, 2, 1, 0]) {
    const instance = left % 2 ? a : b
    expect(await instance.limits.consume('burst', limit)).toEqual({ allowed: true, remaining: left })
  }
  const refused = await a.limits.consume('burst', limit)
  expect(refused.allowed).toBe(false)
  const half = 43_200_000
  expect(refused).toMatchObject({ retryAfterMs: expect.any(Number) })
  if (!refused.allowed) {
    expect(refused.retryAfterMs).toBeLessThanOrEqual(half)
    expect(refused.retryAfterMs).toBeGreaterThan(half - 20_000)
  }
})

test('the default burst is the count of the rate, and consume spends its cost', async () => {
  await pair()
  expect(await a.limits.consume('costs', { rate: '10/h', cost: 7 })).toEqual({ allowed: true, remaining: 3 })
  expect(await b.limits.consume('costs', { rate: '10/h', cost: 4 })).toMatchObject({ allowed: false })
  expect(await b.limits.consume('costs', { rate: '10/h', cost: 3 })).toEqual({ allowed: true, remaining: 0 })
})

test('300 concurrent calls of two instances are allowed exactly 100 times, the burst', async () => {
  await pair()
  const decisions = Array.from({ length: 300 }, (_, i) => (i % 2 ? a : b).limits.consume('many', { rate: '100/d' }))
  const outcomes = await Promise.all(decisions)
  expect(outcomes.filter(({ allowed }) => allowed)).toHaveLength(100)
})

test.each([
  ['one', 'holdfast.rate_decide_one(key, namespace, name, interval_ns, burst, cost, wait_ns)'],
  ['batch', '(select after_ns from holdfast.rate_decide(jsonb_build_array(request), true))'],
])(
  '%s: retryAfterMs is the exact remaining time by the clock of the database, rounded up to a millisecond',
  async (name, call) => {
    await pair()
    const client = await sqlSession(fresh.url)
    const key = hashedKey('default', `rate/${name}`).key
    const request = {
      ordinal: 0,
      key,
      namespace: 'default',
      name,
      interval_ns: '150000000',
      burst: 1,
      cost: 1,
      wait_ns: '0',
    }
    const clock = '(extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000'
    /** Makes one decision, and reads the clock before and after it. */
    const decide = async () => {
      const { rows } = await client.query<{ before: string; after_ns: string; after: string }>(
        `with before as materialized (select ${clock} as ns)
       select before.ns as before, r.after_ns, ${clock} as after
       from before
       cross join lateral (select case when before.ns > 0 then $1::text::jsonb end as request offset 0) given
       cross join jsonb_to_record(given.request) as asked (
         key bigint, namespace text, name text, interval_ns bigint, burst bigint, cost bigint, wait_ns bigint
       )
       cross join lateral (select ${call} as after_ns offset 0) r`,
        [JSON.stringify(request)],
      )
      const { before, after_ns, after } = rows[0]!
      return { before: BigInt(before), missing: BigInt(after_ns), after: BigInt(after) }
    }
    await decide()
    let refusals = 0
    for (let grants = 0; grants < 5 || refusals === 0; ) {
      const fullBefore = await fullAt(name)
      const { before, missing, after } = await decide()
      if (missing <= 0n) {
        // The decision is not too early: the burst was available again.
        expect(after).toBeGreaterThanOrEqual(fullBefore)
        grants++
      } else {
        // The decision is not too late: the burst was not available before.
        expect(before).toBeLessThan(fullBefore)
        expect(missing).toBeLessThanOrEqual(fullBefore - before)
        expect(missing).toBeGreaterThanOrEqual(fullBefore - after)
        refusals++
      }
    }
    // The client rounds up to whole milliseconds. A retry after retryAfterMs is allowed, and a retry one millisecond earlier is not.
    await sql(fresh.url, `update holdfast.rate set full_at = ${clock} + 3600000000000 + 1 where name = $1`, [name])
    const refused = await a.limits.consume(name, { rate: '1/h' })
    expect(refused).toMatchObject({ allowed: false })
    if (!refused.allowed) expect(Number.isInteger(refused.retryAfterMs)).toBe(true)
  },
)

test('a retry after retryAfterMs is always allowed', async () => {
  await pair()
  const limit = { rate: { count: 1, per: '80ms' }, burst: 1 } as const
  await a.limits.consume('retry', limit)
  for (let round = 0; round < 8; round++) {
    const refused = await b.limits.consume('retry', limit)
    if (refused.allowed) continue
    expect(refused.retryAfterMs).toBeLessThanOrEqual(80)
    const until = performance.now() + refused.retryAfterMs
    while (performance.now() < until) await new Promise(setImmediate)
    expect(await b.limits.consume('retry', limit)).toEqual({ allowed: true, remaining: 0 })
  }
})

test('a rate is never exceeded, also if its interval is not a whole number of nanoseconds', async () => {
  await pair()
  const limit = { rate: { count: 7, per: '100ms' }, burst: 3 } as const
  const grants: number[] = []
  const from = performance.now()
  while (performance.now() - from < 1_500) {
    const outcomes = await Promise.all([a, b, a].map((one) => one.limits.consume('sevenths', limit)))
    for (const outcome of outcomes) if (outcome.allowed) grants.push(performance.now())
  }
  const tookMs = performance.now() - from
  expect(grants.length).toBeLessThanOrEqual(3 + (tookMs / 100) * 7)
  // On a busy machine a round may take longer than the burst lasts, and what is not used by then is lost.
  const gaps = grants.map((at, index) => at - (grants[index - 1] ?? from))
  const usedMs = gaps.reduce((sum, gap) => sum + Math.min(gap, (3 * 100) / 7), 0)
  expect(grants.length).toBeGreaterThan((usedMs / 100) * 7 * 0.5)
})

test('consume with wait reserves a time in the future and resolves at that time', async () => {
  await pair()
  const limit = { rate: '20/s', burst: 1, wait: '10s' } as const
  const from = performance.now()
  const at: number[] = []
  await Promise.all(
    Array.from({ length: 10 }, async (_, i) => {
      expect(await (i % 2 ? a : b).limits.consume('places', limit)).toMatchObject({ allowed: true })
      at.push(performance.now() - from)
    }),
  )
  expect(at.at(-1)).toBeGreaterThanOrEqual(9 * 50)
  for (const [place, ms] of at.entries()) expect(ms).toBeGreaterThanOrEqual(place * 50 - 1)
  // Calls whose reserved time would be later than their wait are refused and reserve nothing.
  const before = await fullAt('places')
  await a.limits.consume('places', { ...limit, cost: 1, wait: 0 })
  const later = await Promise.all(Array.from({ length: 5 }, () => a.limits.consume('places', { ...limit, wait: 20 })))
  expect(later.filter(({ allowed }) => allowed).length).toBeLessThanOrEqual(1)
  expect(await fullAt('places')).toBeGreaterThanOrEqual(before)
})

test('a waiting consume rejects with the reason if its signal aborts', async () => {
  await pair()
  const limit = { rate: '1/min', burst: 1 } as const
  await a.limits.consume('sleep', limit)
  const abort = new AbortController()
  const sleeping = a.limits.consume('sleep', { ...limit, wait: '2m', signal: abort.signal })
  const before = await fullAt('sleep')
  await until('the time is reserved', async () => (await fullAt('sleep')) > before - 1n)
  const reason = new Error('no more')
  abort.abort(reason)
  await expect(sleeping).rejects.toBe(reason)
})

test('a refused consume writes nothing', async () => {
  await pair()
  await a.limits.consume('silent', { rate: '1/d' })
  const version = () => sql(fresh.url, `select xmin, xmax, ctid from holdfast.rate where name = 'silent'`)
  const before = await version()
  for (let i = 0; i < 20; i++)
    expect(await b.limits.consume('silent', { rate: '1/d' })).toMatchObject({ allowed: false })
  expect(await version()).toEqual(before)
})

test('a locked row of one entity delays neither other entities nor refusals', async () => {
  await pair()
  await a.limits.consume('hot', { rate: '2/d' })
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  await client.query(`select from holdfast.rate where name = 'hot' for update`)
  const hot = a.limits.consume('hot', { rate: '2/d' })
  expect(await within(5_000, 'the refusal', a.limits.consume('hot', { rate: '1/d' }))).toMatchObject({ allowed: false })
  for (let i = 0; i < 5; i++)
    await within(5_000, 'the decision about another entity', a.limits.consume(`cold ${i}`, { rate: '1/s' }))
  await client.query('commit')
  expect(await within(5_000, 'the decision about the locked entity', hot)).toEqual({ allowed: true, remaining: 0 })
})

describe('invalid options of limits.consume', () => {
  const rates =
    'Expected rate to be a count and a period such as "100/min", "5/s", "1000/h", "1/d" or { count: 3, per: "10s" }'
  test.each<[unknown, string]>([
    [undefined, `${rates}, got undefined`],
    [{ rate: 'fast' }, `${rates}, got "fast" (string)`],
    [{ rate: '0/s' }, `${rates}, got "0/s" (string)`],
    [{ rate: '1/fortnight' }, `${rates}, got "1/fortnight" (string)`],
    [{ rate: { count: 1 } }, `${rates}, got an object (Object)`],
    [{ rate: { count: 1.5, per: '1s' } }, `${rates}, got an object (Object)`],
    [{ rate: { count: 1, per: 0 } }, `${rates}, got an object (Object)`],
    [{ rate: { count: 1, per: '1s', burst: 2 } }, `${rates}, got an object (Object)`],
    [{ rate: '2000000/s' }, 'Expected rate to be at most 1,000,000 per second, got 2000000 in 1s'],
    [{ rate: '1/d', burst: 1_000 }, 'Expected the burst to recover within 366 days, got a burst of 1000'],
    [{ rate: '5/s', cost: 6 }, 'Expected cost to be at most the burst of 5, got 6, which can never be allowed'],
    [{ rate: '5/s', burst: 0 }, 'Expected burst to be a whole number between 1 and 1000000000, got 0 (number)'],
    [{ rate: '5/s', bursts: 3 }, 'limits.consume has no option "bursts": did you mean "burst"?'],
  ])('limits.consume refuses the options %j', async (options, message) => {
    await pair()
    const error = await caught(UsageError, a.limits.consume('x', options as never))
    expect(error.message).toBe(message)
  })
})
