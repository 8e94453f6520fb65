import { expect, test } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { gate } from './effects.js'

const rows = async (url: string) =>
  (await sql<{ count: number }>(url, 'select count(*)::int from holdfast.delivery'))[0]!.count

const age = (url: string, by: string) =>
  sql(url, 'update holdfast.delivery set expires_at = expires_at - $1::interval', [by])

test('a result is kept for the duration of the option retain after its end', async () => {
  const url = await databaseUrl()
  const { once } = await open({ url })
  await once.run('default', () => 1)
  await once.run('asked', { retain: '30d' }, () => 1)
  const kept = await sql<{ key: string; days: number }>(
    url,
    'select key, round(extract(epoch from expires_at - finished_at) / 86400)::int as days from holdfast.delivery order by key',
  )
  expect(kept).toEqual([
    { key: 'asked', days: 30 },
    { key: 'default', days: 7 },
  ])
})

test('an expired result counts as absent, also for the comparison of fingerprints', async () => {
  const url = await databaseUrl()
  const [one, other] = [await open({ url }), await open({ url })]
  await one.once.run('k', { retain: '1s', fingerprint: 'a' }, () => 1)
  const answer = await until('the result has expired', async () => {
    const found = await other.once.run('k', { fingerprint: 'a' }, () => 2)
    return found.status === 'done' ? found : undefined
  })
  expect(answer).toEqual({ status: 'done', value: 2 })
  await age(url, '8 days')
  expect(await one.once.run('k', { fingerprint: 'b' }, () => 3)).toEqual({ status: 'done', value: 3 })
  expect(await one.once.forget('k')).toBe(true)
  await one.once.run('k', () => 4)
  await age(url, '8 days')
  expect(await one.once.forget('k')).toBe(false)
})

test('sweep removes expired rows in bounded batches, and keeps other results and runs in flight', async () => {
  const url = await databaseUrl()
  const { once } = await open({ url })
  const opening = gate()
  const running = once.run('in flight', () => opening.opened.then(() => 'late'))
  await until('the run is in flight', async () => (await rows(url)) === 1)
  await sql(
    url,
    `insert into holdfast.delivery (namespace, key, state, token, session, instance, fence, started_at, expires_at)
     select 'default', 'old ' || i, case when i % 2 = 0 then 'done' else 'in-flight' end, '', 0, '', 1, now(), now()
     from generate_series(1, 2500) as i`,
  )
  await age(url, '8 days')
  await once.run('kept', () => 1)
  expect(await once.sweep()).toBe(1_000)
  expect(await once.sweep()).toBe(1_000)
  // Two concurrent sweeps skip the rows that the other has locked.
  const both = await Promise.all([once.sweep(), once.sweep()])
  expect(both[0]! + both[1]!).toBe(500)
  expect(await rows(url)).toBe(2)
  opening.open()
  expect(await running).toEqual({ status: 'done', value: 'late' })
  expect(await once.run('in flight', () => 'again')).toEqual({ status: 'replayed', value: 'late' })
})

test('sweep finds expired rows with an index', async () => {
  const url = await databaseUrl()
  const { once } = await open({ url })
  await once.run('k', () => 1)
  await sql(
    url,
    `insert into holdfast.delivery (namespace, key, state, token, session, instance, fence, started_at, expires_at)
     select 'default', 'k ' || i, 'done', '', 0, '', 1, now(), now() + interval '1 day' from generate_series(1, 20000) as i;
     analyze holdfast.delivery`,
  )
  const before = await blocksRead(url)
  expect(await once.sweep()).toBe(0)
  // A scan of the whole table would read hundreds of blocks.
  expect((await blocksRead(url)) - before).toBeLessThan(30)
})

/** Returns the number of blocks that the sweep statements have read, according to pg_stat_statements. */
async function blocksRead(url: string): Promise<number> {
  const [row] = await sql<{ blocks: number }>(
    url,
    `select coalesce(sum(shared_blks_hit + shared_blks_read), 0)::int as blocks
     from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database())
       and query like '%with expired as materialized%'
       and query not like '%pg_stat_statements%'`,
  )
  return row!.blocks
}
