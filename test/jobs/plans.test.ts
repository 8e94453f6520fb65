import type { Client } from 'pg'
import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { sql, sqlSession, stays, until } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { work } from './fixture.js'

const many = 100_000
const tables = ['job', 'waiting', 'job_history', 'claim', 'worker']
const levels = [5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5]

/** How many rows a statement read, by walking over whole tables and by index. In one transaction, where they are counted exactly. */
async function readsOf(client: Client, text: string, values: unknown[]) {
  await client.query('begin')
  const { rows } = await client.query(text, values)
  const counted = await client.query<{ scanned: number; fetched: number }>(
    `select sum(pg_stat_get_xact_tuples_returned(c.oid))::int as scanned, sum(pg_stat_get_xact_tuples_fetched(c.oid))::int as fetched
     from unnest($1::text[]) as name
     join pg_class c on c.oid = ('holdfast.' || name)::regclass
       or c.oid in (select inhrelid from pg_inherits where inhparent = ('holdfast.' || name)::regclass)`,
    [tables],
  )
  await client.query('commit')
  return { row: rows[0] as Record<string, string>, ...counted.rows[0]! }
}

test(`with ${many} jobs ready and ${many} delayed, claims, ends and rounds read by index, and no more than they need`, {
  timeout: 60_000,
}, async () => {
  const url = await databaseUrl()
  const client = await sqlSession(url)
  const holdfast = await open({ url })
  // Its life claims; nobody serves the queue of the jobs.
  work(holdfast, [defineJob('other', { queue: 'other', run() {} })])
  const session = await until('the life works, and the days are made', async () => {
    const [row] = await sql<{ session: number; days: number }>(
      url,
      `select session, (select count(*)::int from pg_class where relname ~ '^job_history_[0-9]{8}$') as days
       from holdfast.worker`,
    )
    return row?.days === 4 && row.session
  })
  await holdfast.jobs.enqueue(defineJob('filed', { queue: 'filed', run() {} }), null)
  const { queue } = (await client.query<{ queue: string }>('select queue from holdfast.job')).rows[0]!
  // What the plans are made from knows nothing of them.
  await client.query('alter table holdfast.job set (autovacuum_enabled = off)')
  await client.query('alter table holdfast.waiting set (autovacuum_enabled = off)')
  await client.query(
    `insert into holdfast.job (id, seq, queue, priority, kind, payload)
     select n, n, $1, 0, 'filed', 'null'
     from (select nextval('holdfast.job_number') as n from generate_series(1, $2) offset 0) as numbered`,
    [queue, many],
  )
  await client.query(
    `insert into holdfast.waiting (id, queue, priority, kind, payload, run_at)
     select nextval('holdfast.job_number'), $1, 0, 'filed', 'null', now() + interval '1 day'
     from generate_series(1, $2)`,
    [queue, many],
  )
  let cursor = '0'
  const claim = async (most: number, looksBack = false) => {
    const claimed = await readsOf(
      client,
      `select state, fence, new_cursors, array(select (job ->> 0)::bigint from json_array_elements(jobs::json) as job) as ids
       from holdfast.job_claim($1, 1, $2::bigint[], $3::integer[], $4::bigint[], '{filed}', $5, false, $6)`,
      [session, levels.map(() => queue), levels, levels.map(() => cursor), most, looksBack],
    )
    expect(claimed.row.state).toBe('claimed')
    cursor = String(JSON.parse(claimed.row.new_cursors!)[levels.indexOf(0)])
    return { ...claimed, ids: claimed.row.ids as unknown as string[], fence: claimed.row.fence! }
  }

  for (const statistics of ['none', 'fresh']) {
    if (statistics === 'fresh') await client.query('analyze holdfast.job, holdfast.waiting')
    for (const looksBack of [false, true]) {
      const { ids, scanned, fetched } = await claim(100, looksBack)
      expect(ids).toHaveLength(100)
      expect(scanned + fetched, `a claim, statistics: ${statistics}, looks back: ${looksBack}`).toBeLessThan(2_000)
    }
    const { ids, fence } = await claim(200)
    const fences = (part: string[]) => part.map(() => fence)
    const done = ids.slice(0, 100)
    const plain = await readsOf(
      client,
      "select recorded as answer from holdfast.job_done($1::bigint[], $2::bigint[], null, '{}')",
      [done, fences(done)],
    )
    expect(plain.row.answer).toBeNull()
    expect(plain.scanned + plain.fetched, `ends, statistics: ${statistics}`).toBeLessThan(1_000)
    const told = ids.slice(100, 150)
    const withResults = await readsOf(
      client,
      "select recorded as answer from holdfast.job_done($1::bigint[], $2::bigint[], $3::text::json, '{}')",
      [told, fences(told), JSON.stringify(told.map((id) => [id]))],
    )
    expect(withResults.row.answer).toBeNull()
    expect(withResults.scanned + withResults.fetched, `results, statistics: ${statistics}`).toBeLessThan(1_000)
    const asked = ids.slice(150).map((id, at) => ({
      id: Number(id),
      fence: Number(fence),
      state: ['buried', 'retried', 'returned'][at % 3],
      error: {},
      delay_ms: 86_400_000,
      failed: 0,
    }))
    const others = await readsOf(
      client,
      'select recorded as answer from holdfast.job_end($1::text::json, $2::bigint[])',
      [JSON.stringify(asked), [fence]],
    )
    expect(others.row.answer).toHaveLength(50)
    expect(others.scanned + others.fetched, `other ends, statistics: ${statistics}`).toBeLessThan(1_000)
    const round = await readsOf(client, 'select due_ms, moved from holdfast.job_maintain(1000)', [])
    expect(round.scanned + round.fetched, `a round, statistics: ${statistics}`).toBeLessThan(1_000)
  }
})

test('four idle workers cost little', { timeout: 60_000 }, async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 4)
  const noop = defineJob('noop', { run() {} })
  for (const holdfast of fleet) work(holdfast, [noop])
  const { id } = await fleet[0]!.jobs.enqueue(noop, null)
  await fleet[0]!.jobs.result(id)
  const transactions = async () => {
    const [row] = await sql<{ count: number }>(
      url,
      'select (xact_commit + xact_rollback)::int as count from pg_stat_database where datname = current_database()',
    )
    return row!.count
  }
  // They look less and less often; whoever had work says so for some seconds.
  await until(
    'fewer than thirty statements in two seconds',
    async () => {
      const before = await transactions()
      await stays('idle', () => true, 2_000)
      return (await transactions()) - before < 30
    },
    30_000,
  )
})
