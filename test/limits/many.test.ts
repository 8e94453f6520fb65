// Tests thousands of entities, and the cleanup of their rows.
import { expect, test } from 'vitest'
import { countOf } from '../property/seed.js'
import { sql, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { nothingInUse, untilQueued } from './facts.js'

/** 3,000 by default, 10,000 with HOLDFAST_SCHEDULES=10. */
const many = countOf(3, 10) * 1_000

test(`${many} entities get their permits while 200 requests wait for another entity`, {
  timeout: 180_000,
}, async () => {
  const url = await databaseUrl()
  // The event loop is busy, so the default expiry could be too short.
  const [a, b] = [await open({ url, expiry: '1m' }), await open({ url, expiry: '1m' })]
  const held = await b.limits.acquire('hot', { max: 1 })
  const waiting = Array.from({ length: 200 }, (_, i) => (i % 2 ? a : b).limits.acquire('hot', { max: 1, wait: '5m' }))
  await untilQueued(url, 'hot', 200)
  const cold = Array.from({ length: many }, (_, i) => (i % 2 ? a : b).limits.acquire(`cold ${i}`, { max: 1 }))
  const permits = await within(60_000, 'the permits of the other entities', Promise.all(cold))
  expect(new Set(permits.map(({ fence }) => fence)).size).toBe(many)
  expect(
    await sql(url, `select count(*)::int, sum(in_use)::int from holdfast.limit_state where name like 'cold %'`),
  ).toEqual([{ count: many, sum: many }])
  const [, acquired] = await Promise.all([
    within(60_000, 'the releases', Promise.all(permits.map((permit) => permit.release()))),
    Promise.all(Array.from({ length: 100 }, (_, i) => a.limits.tryAcquire(`cold ${i}`, { max: 1, wait: '5s' }))),
  ])
  expect(acquired.filter((permit) => permit === null)).toEqual([])
  await held.release()
  await within(60_000, 'the waiting requests', Promise.all(waiting.map(async (permit) => (await permit).release())))
  await Promise.all(acquired.map((permit) => permit!.release()))
  await until('nothing is in use', () => nothingInUse(url))
})

test('calls of other entities delete unused rows in batches', { timeout: 180_000 }, async () => {
  const url = await databaseUrl()
  const [a, b] = [await open({ url }), await open({ url })]
  const use = (from: number, count: number) =>
    Promise.all(
      Array.from({ length: count }, async (_, i) => {
        await (await a.limits.acquire(`of ${from + i}`, { max: 1 })).release()
        await b.limits.consume(`of ${from + i}`, { rate: '1000/s' })
      }),
    )
  await use(0, 1_500)
  await using _held = await a.limits.acquire('held', { max: 1 })
  // A dead instance left this permit, and no call has used its entity since.
  await sql(
    url,
    `insert into holdfast.limit_state (key, namespace, name, in_use) values (1, 'default', 'of the dead', 1)`,
  )
  await sql(
    url,
    `insert into holdfast.permit (key, token, session, instance, weight, max, fence, since)
     values (1, 1, 999999, 'dead', 1, 1, 1, now())`,
  )
  await sql(url, `update holdfast.limit_state set changed_at = changed_at - interval '2 minutes'`)
  await sql(url, 'update holdfast.rate set full_at = full_at - 120000000000')
  for (let round = 1; round <= 3; round++) await use(round * 500, 500)
  await until(
    'the unused rows are deleted',
    async () => {
      await use(10_000, 500)
      const [row] = await sql<{ idle: number; rates: number; dead: number }>(
        url,
        `select
         (select count(*)::int from holdfast.limit_state where changed_at < now() - interval '2 minutes' and in_use = 0) as idle,
         (select count(*)::int from holdfast.rate where full_at < extract(epoch from now())::bigint * 1000000000 - 110000000000) as rates,
         (select count(*)::int from holdfast.permit where instance = 'dead') as dead`,
      )
      return row!.idle === 0 && row!.rates === 0 && row!.dead === 0
    },
    60_000,
  )
  expect(await sql(url, `select in_use from holdfast.limit_state where name = 'of the dead' and in_use > 0`)).toEqual(
    [],
  )
  expect(await sql(url, `select in_use::int from holdfast.limit_state where name = 'held'`)).toEqual([{ in_use: 1 }])
})
