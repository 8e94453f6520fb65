import type { Client } from 'pg'
import { expect, test } from 'vitest'
import { defineBudget, defineJob, NonRetryableError } from '../../src/index.js'
import { sql, sqlSession, stays, until } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { runsAll } from '../setup/variants.js'
import { gate, intercept, work } from './fixture.js'

const many = runsAll ? 100_000 : 20_000
const manyEnded = runsAll ? 500_000 : 100_000
const tables = [
  'job',
  'frontier',
  'job_skipped',
  'job_removed',
  'waiting',
  'claim',
  'job_end',
  'job_note',
  'job_stopped',
  'worker',
  'unique_job',
  'follow_up',
  'dependency',
  'lane',
  'lane_reservation',
]

/**
 * Counts the rows and index entries that a statement reads. The statement runs in its own transaction, where the counts are
 * exact.
 */
async function readsOf(client: Client, text: string, values: unknown[]) {
  const counted = () => client.query<{ name: string; reads: number }>(countReads, [tables])
  await client.query('begin')
  const before = new Map((await counted()).rows.map(({ name, reads }) => [name, reads]))
  const { rows } = await client.query(text, values)
  const read = (await counted()).rows.map(({ name, reads }) => ({ name, reads: reads - (before.get(name) ?? 0) }))
  await client.query('commit')
  return {
    rows: rows as Record<string, unknown>[],
    row: rows[0] as Record<string, unknown>,
    reads: read.reduce((sum, one) => sum + one.reads, 0),
    text: read
      .filter(({ reads }) => reads > 0)
      .map(({ name, reads }) => `${name} ${reads}`)
      .join(', '),
  }
}

// A table counts the rows that sequential scans returned, and the rows that bitmap scans fetched. An index counts the entries
// that it returned.
const countReads = `
  with named as (
    select ('holdfast.' || name)::regclass as table from unnest($1::text[]) as name
  ),
  tables as (
    select "table" as oid from named
    union
    select inhrelid from named join pg_inherits on inhparent = named.table
  )
  select relname as name, (
    pg_stat_get_xact_tuples_returned(c.oid) + case when relkind = 'r' then pg_stat_get_xact_tuples_fetched(c.oid) else 0 end
  )::int as reads
  from (
    select oid from tables
    union all
    select indexrelid from tables join pg_index on indrelid = tables.oid
  ) as relation
  join pg_class c on c.oid = relation.oid`

/** Opens a session that enqueues and claims with the epoch of a worker. No worker serves the queue of the jobs. */
async function claimer(url: string) {
  const client = await sqlSession(url)
  const holdfast = await open({ url })
  const worker = work(holdfast, [defineJob('other', { queue: 'other', run() {} })])
  await worker.ready()
  const [{ session }] = (await sql<{ session: number }>(url, 'select session from holdfast.worker')) as [
    { session: number },
  ]
  const first = await holdfast.jobs.enqueue(defineJob('filed', { queue: 'filed', run() {} }), null)
  const { queue } = (await client.query<{ queue: string }>('select queue from holdfast.job')).rows[0]!
  // Without autovacuum, PostgreSQL plans without statistics about these rows.
  await client.query(`
    do $$ declare quiet text; begin
      for quiet in
        select inhrelid::regclass::text from pg_inherits
        where inhparent = any(array['holdfast.job', 'holdfast.job_end', 'holdfast.job_stopped']::regclass[])
        union all
        select unnest(array['holdfast.waiting', 'holdfast.claim', 'holdfast.frontier'])
      loop
        execute format('alter table %s set (autovacuum_enabled = off)', quiet);
      end loop;
    end $$`)
  const enqueue = (count: number) =>
    client.query(
      `insert into holdfast.job (queue, id, entry, era, priority, kind, payload)
       select $1, n, n, (select era from holdfast.server_generation), 0, 'filed', 'null'
       from (select nextval('holdfast.job_number') as n from generate_series(1, $2) offset 0) as numbered`,
      [queue, count],
    )
  const claim = async (maxCount: number, isThorough = false) => {
    const { row, ...read } = await readsOf(
      client,
      `select state, fence, array(select (job ->> 0)::bigint from json_array_elements(('[' || jobs || ']')::json) as job) as ids
       from holdfast.job_claim($1, 1, array[$2::bigint], '{filed}', $3, false, $4)`,
      [session, queue, maxCount, isThorough],
    )
    expect(row.state).toBe('claimed')
    return { ids: row.ids as string[], fence: row.fence as string, ...read }
  }
  return { client, session, queue, first, enqueue, claim }
}

test(`statements read few rows, through indexes, with ${many} ready, ${many} delayed and ${manyEnded} ended jobs, ${many} keys and ${many} lanes`, {
  timeout: 120_000,
}, async () => {
  const url = await databaseUrl()
  const { client, session, queue, first, enqueue, claim } = await claimer(url)
  await enqueue(manyEnded - 1)
  for (let left = manyEnded; left > 0; left -= many) {
    const { ids, fence } = await claim(many, true)
    expect(ids).toHaveLength(many)
    await client.query(
      `select holdfast.job_done($1, array_fill($2::bigint, array[$3::integer]), null, array[$2::bigint])`,
      [ids, fence, ids.length],
    )
  }
  expect((await client.query('select from holdfast.claim')).rowCount).toBe(0)
  await enqueue(many)
  await client.query(
    `insert into holdfast.waiting (id, queue, priority, kind, payload, run_at)
     select nextval('holdfast.job_number'), $1, 0, 'filed', 'null', now() + interval '2 days'
     from generate_series(1, $2)`,
    [queue, many],
  )
  await client.query(
    `insert into holdfast.unique_job (queue, kind, key, id, until, expires_at)
     select $1, 'filed', n, n, 'window', now() + interval '2 days' from generate_series(1, $2) as n`,
    [queue, many],
  )
  await client.query(
    `insert into holdfast.lane (key, queue, name, max, updated_by_job, due_at)
     select n, $1, n, 1, 1, now() + interval '2 days' from generate_series(1, $2) as n`,
    [queue, many],
  )
  for (const statistics of ['none', 'fresh']) {
    if (statistics === 'fresh') await client.query('analyze')
    const expectReads = (what: string, { reads, text }: { reads: number; text: string }, max: number) => {
      expect.soft(reads, `${what}, statistics: ${statistics}: ${text}`).toBeLessThan(max)
    }
    for (const isThorough of [false, true]) {
      const { ids, ...claimed } = await claim(100, isThorough)
      expect(ids).toHaveLength(100)
      expectReads(`a claim, thorough: ${isThorough}`, claimed, 2_000)
    }
    const idle = await readsOf(
      client,
      "select jobs from holdfast.job_claim($1, 1, '{7}', '{filed}', 100, false, true)",
      [session],
    )
    expect(idle.row.jobs).toBeNull()
    expectReads('a claim that finds nothing', idle, 100)
    const { ids, fence } = await claim(200)
    const fences = (part: string[]) => part.map(() => fence)
    const done = ids.slice(0, 100)
    const plain = await readsOf(
      client,
      "select recorded as answer from holdfast.job_done($1::bigint[], $2::bigint[], null, '{}')",
      [done, fences(done)],
    )
    expect(plain.row.answer).toBeNull()
    expectReads('ends', plain, 1_000)
    const finished = ids.slice(100, 150)
    const withResults = await readsOf(
      client,
      "select recorded as answer from holdfast.job_done($1::bigint[], $2::bigint[], $3::text::json, '{}')",
      [finished, fences(finished), JSON.stringify(finished.map((id) => [id]))],
    )
    expect(withResults.row.answer).toBeNull()
    expectReads('results', withResults, 1_000)
    const endings = ids.slice(150).map((id, at) => ({
      id: Number(id),
      fence: Number(fence),
      state: ['buried', 'retried', 'returned'][at % 3],
      error: {},
      delay_ms: 172_800_000,
      failed: 0,
    }))
    const others = await readsOf(
      client,
      'select recorded as answer from holdfast.job_end($1::text::json, $2::bigint[])',
      [JSON.stringify(endings), [fence]],
    )
    expect(others.row.answer).toHaveLength(50)
    expectReads('other ends', others, 1_000)
    const round = await readsOf(client, 'select due_ms, moved from holdfast.job_maintain(1000)', [])
    expectReads('maintenance', round, 1_000)
    const followUps = await readsOf(client, "select moved from holdfast.job_run_follow_ups('{}', '{}', $1)", [session])
    expectReads('follow-ups', followUps, 1_000)
    const { ids: running } = await claim(2)
    const last = (
      await client.query<{ id: string }>(
        `select id from holdfast.job where not exists (select from holdfast.job_removed r where r.entry = job.entry)
         order by id desc limit 1`,
      )
    ).rows[0]!.id
    const found = await readsOf(
      client,
      'select state from holdfast.job_find($1::bigint[]) order by array_position($1::bigint[], id)',
      [[first.id, running[0], last]],
    )
    expect(found.rows.map(({ state }) => state)).toEqual(['done', 'running', 'ready'])
    expectReads('three jobs', found, 100)
    for (const id of [running[1], last]) {
      const { row, ...cancelled } = await readsOf(client, "select answer from holdfast.job_cancel($1, 'not wanted')", [
        id,
      ])
      expect(row.answer).toBe(id === last ? 'cancelled' : 'requested')
      expectReads(`a job is ${String(row.answer)}`, cancelled, 200)
    }
  }
})

test(`claims read few rows while another transaction is in progress, with ${many} ready jobs, and plans from before`, async () => {
  const url = await databaseUrl()
  const { enqueue, claim } = await claimer(url)
  // This transaction could have added entries before those that have been read, so claims look for its entries. Before version 17,
  // PostgreSQL can return the entries of several transactions in their order only if it also reads all later entries.
  const other = await sqlSession(url)
  await other.query('begin; select pg_current_xact_id()')
  // The session keeps the plans of these claims, which were made for an almost empty table.
  for (let at = 0; at < 10; at++) {
    await enqueue(1)
    expect((await claim(100, true)).ids).not.toHaveLength(0)
  }
  await enqueue(many)
  for (const part of ['first', 'second']) {
    const { ids, reads, text } = await claim(100, true)
    expect(ids).toHaveLength(100)
    expect(reads, `the ${part} claim: ${text}`).toBeLessThan(2_000)
  }
})

test('four idle workers run fewer than 30 transactions in two seconds', { timeout: 60_000 }, async () => {
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
  // Idle workers poll less and less often. A worker that has run a job announces this for some seconds.
  await until(
    'fewer than 30 transactions in two seconds',
    async () => {
      const before = await transactions()
      await stays('the workers are idle', () => true, 2_000)
      return (await transactions()) - before < 30
    },
    30_000,
  )
})

interface PlanNode {
  'Actual Loops': number
  'Rows Removed by Join Filter'?: number
  Plans?: PlanNode[]
}

/** Returns how many pairs of rows the joins of a plan have compared in vain. */
function pairsOf({ Plans = [], ...node }: PlanNode): number {
  const own = node['Actual Loops'] * (node['Rows Removed by Join Filter'] ?? 0)
  return Plans.reduce((sum, plan) => sum + pairsOf(plan), own)
}

/** Opens a session that counts the pairs of rows that the joins of its statements compare in vain. */
async function explained(url: string) {
  const client = await sqlSession(url)
  await client.query(`
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_analyze = on;
    set auto_explain.log_timing = off;
    set auto_explain.log_nested_statements = on;
    set auto_explain.log_format = json;
    set auto_explain.log_level = notice`)
  let pairs = 0
  client.on('notice', ({ message = '' }) => {
    const json = message.indexOf('{')
    if (message.includes('plan:') && json > 0) pairs += pairsOf(JSON.parse(message.slice(json)).Plan)
  })
  const takePairs = () => {
    const counted = pairs
    pairs = 0
    return counted
  }
  return { client, takePairs }
}

// PostgreSQL expects that lists in parameters are short. With a nested loop, the end of 1,000 jobs would take half a second.
test('statements that end many jobs do not compare each job with each other job', async () => {
  const count = 400
  const url = await databaseUrl()
  const holdfast = await open({ url, log: false })
  const { client, takePairs } = await explained(url)
  let statements = 0
  // One statement ends all jobs, because it waits until they have run.
  let ran = gate()
  intercept(holdfast, async (run, text, values) => {
    if (!/job_(done|end)\(/.test(text)) return run()
    await ran.opened
    statements++
    return (await client.query(text, values as unknown[])).rows
  })
  const provider = defineBudget('provider', { max: 10_000 })
  const inputs = Array.from({ length: count }, (_, n) => n)
  let running = 0
  const fail = () => {
    if (++running === count) ran.open()
    throw new NonRetryableError('this job fails')
  }
  const succeed = () => {
    if (++running === count) ran.open()
  }
  const unique = { unique: { key: (n: number) => String(n) } }
  for (const { kind, run, options } of [
    { kind: 'unique', run: succeed, options: unique },
    { kind: 'budgeted', run: succeed, options: { budgets: [provider] } },
    { kind: 'failing', run: fail, options: {} },
  ]) {
    running = 0
    ran = gate()
    const job = defineJob<number>(kind, { queue: kind, run })
    await holdfast.jobs.enqueueMany(job, inputs, options)
    const worker = work(holdfast, [job], { concurrency: count })
    await until('the jobs have ended', async () => (await sql(url, 'select from holdfast.job_live')).length === 0)
    await worker.close()
    expect(statements).toBeGreaterThan(0)
    expect(takePairs(), kind).toBeLessThan(20 * count)
    statements = 0
  }
})

test('a workflow of independent jobs does not compare each job with each other job', async () => {
  const count = 400
  const url = await databaseUrl()
  const holdfast = await open({ url, log: false })
  const { client, takePairs } = await explained(url)
  intercept(holdfast, async (run, text, values) =>
    text.includes('job_enqueue(') ? (await client.query(text, values as unknown[])).rows : run(),
  )
  const job = defineJob<number>('job', { run() {} })
  const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
    for (let n = 0; n < count; n++) workflow.add(job, n)
  })
  expect(jobs).toHaveLength(count)
  expect(takePairs()).toBeLessThan(20 * count)
})
