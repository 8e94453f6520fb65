import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { type JobSearch, readJobSearch } from '../../src/search/index.js'
import { drain, enqueued } from '../../src/testing/index.js'
import { gate, work } from '../jobs/fixture.js'
import { insertDone } from '../setup/done-jobs.js'
import { sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const mail = defineJob<unknown>('mail', { queue: 'post', run: () => {} })

const found = async ({ jobs }: Observer, search: Partial<JobSearch> = {}, limit?: number) =>
  (await jobs.search(search, { limit })).rows

async function observe<T>(url: string, look: (observer: Observer) => Promise<T>): Promise<T> {
  const database = openPgPool({ connectionString: url })
  try {
    return await look(new Observer(database))
  } finally {
    await database.close()
  }
}

test('a search through very many jobs reads few rows, through indexes', async () => {
  const url = await databaseUrl()
  // Without statistics, and with nearly all jobs in one queue, which misleads the planner.
  const tables = await sql<{ name: string }>(
    url,
    `select format('%I.%I', schemaname, relname) as name from pg_stat_user_tables
     where relname ~ '^(job|job_end|job_stopped)_(default|\\d+)$' or relname in ('waiting', 'job_note')`,
  )
  for (const { name } of tables) await sql(url, `alter table ${name} set (autovacuum_enabled = false)`)
  const { jobs } = await open({ url })
  await jobs.enqueue(mail, 1)
  await jobs.enqueue(defineJob<unknown>('rare', { queue: 'small', run: () => {} }), 1)
  const key = "holdfast.lock_key('default', 'queue/post')"
  const columns = 'id, queue, priority, kind, payload'
  const values = (from: number) => `i + ${from}, ${key}, 0, 'mail', '{}'`
  const many = 'from generate_series(1, 60000) as i'
  await sql(
    url,
    `insert into holdfast.job (${columns}, entry, era) select ${values(100)}, i + 100, (select era from holdfast.server_generation) ${many};
     insert into holdfast.waiting (${columns}, run_at) select ${values(100_000)}, now() + interval '1 day' ${many};
     insert into holdfast.job_stopped (${columns}, state, enqueued_at, failed, crashes, max_crashes)
       select ${values(200_000)}, 'buried', now(), 0, 0, 3 ${many};
     ${insertDone(`select i + 300000 as id, ${key} as queue, 'mail' as kind, '{}'::json as payload,
       now() as enqueued_at, now() as claimed_at, now() as ended_at ${many}`)}`,
  )
  const read = await rowsRead(url, async (observer) => {
    expect(await found(observer, { queues: ['post'] })).toHaveLength(50)
    expect(await found(observer, { states: ['waiting'] }, 20)).toHaveLength(20)
    expect(await found(observer, { states: ['buried'] })).toMatchObject({ 0: { id: 260_000, state: 'buried' } })
  })
  expect(read).toBeLessThan(2_000)
  const lookedThrough = await rowsRead(url, async (observer) => {
    expect(await found(observer, { states: ['ready'], kinds: ['rare'] })).toMatchObject([
      { kind: 'rare', queue: 'small' },
    ])
  })
  expect(lookedThrough).toBeLessThan(21_000)
  const counted = await rowsRead(url, async (observer) => {
    // Counts are exact up to 10,000.
    expect((await observer.jobs.queues()).rows).toMatchObject([
      { name: 'post', ready: 10_001, waiting: 10_001, buried: 10_001, running: 0, workers: 0 },
      { name: 'small', ready: 1, waiting: 0, buried: 0 },
    ])
  })
  expect(counted).toBeLessThan(31_000)
})

test('running jobs are distinguished from ready jobs', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const { opened, open: end } = gate()
  const worker = work(holdfast, [defineJob('mail', { queue: 'post', run: () => opened })], { concurrency: 1 })
  const { id } = await holdfast.jobs.enqueue(mail, 1)
  await until('the job runs', () => worker.running === 1)
  const ready = await holdfast.jobs.enqueue(mail, 2)
  await observe(url, async (observer) => {
    expect(await found(observer)).toMatchObject([
      { id, state: 'running', instance: holdfast.id, claimedAt: expect.any(Date) },
      { id: ready.id, state: 'ready', claimedAt: null },
    ])
    expect((await observer.jobs.queues()).rows).toMatchObject([{ ready: 1, running: 1, workers: 1 }])
    expect(await enqueued(holdfast)).toMatchObject([{ id: ready.id }])
    end()
    await drain(holdfast, [mail])
    expect(await found(observer)).toMatchObject([
      { id: ready.id, state: 'done' },
      { id, state: 'done' },
    ])
    expect((await observer.jobs.queues()).rows).toMatchObject([{ ready: 0, running: 0 }])
  })
})

test('a queue whose name is not recorded is shown with its key', async () => {
  const url = await databaseUrl()
  const { jobs } = await open({ url })
  const { id } = await jobs.enqueue(mail, 1)
  await expect.poll(() => sql(url, 'select from holdfast.queue')).toHaveLength(1)
  await sql(url, 'delete from holdfast.queue')
  await observe(url, async (observer) => {
    const key = (await observer.jobs.queues()).rows[0]!.key
    expect((await observer.jobs.queues()).rows).toMatchObject([{ key, name: null, namespace: null, ready: 1 }])
    expect(await found(observer)).toMatchObject([{ id, queue: null, namespace: null, queueKey: key }])
    expect(await observer.jobs.queues({ namespace: 'default' })).toEqual({ rows: [], count: 0 })
  })
})

test('the pages of a search contain each job once, in the same order as one long page', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const { opened, open: end } = gate()
  const hold = defineJob('hold', { queue: 'hold', run: () => opened })
  const fail = defineJob<unknown>('fail', {
    queue: 'post',
    retry: { attempts: 1 },
    run: () => Promise.reject(new Error('Upstream said 503')),
  })
  await holdfast.jobs.enqueueMany(fail, [1, 2, 3])
  await holdfast.jobs.enqueueMany(mail, [1, 2, 3])
  await drain(holdfast, [mail, fail])
  const worker = work(holdfast, [hold], { concurrency: 3 })
  for (let i = 0; i < 3; i++) await holdfast.jobs.enqueue(hold, null)
  await until('the jobs run', () => worker.running === 3)
  for (let i = 0; i < 7; i++) {
    await holdfast.jobs.enqueue(mail, i, { priority: (i % 3) - 1 })
    await holdfast.jobs.enqueue(defineJob<unknown>('other', { queue: 'other', run: () => {} }), i)
    await holdfast.jobs.enqueue(mail, i, { delay: i % 2 === 0 ? '1h' : '2h' })
  }
  const { id: cancelled } = await holdfast.jobs.enqueue(mail, 1, { delay: '1h' })
  await holdfast.jobs.cancel(cancelled)
  await observe(url, async ({ jobs }) => {
    const all = await jobs.search({}, { limit: 100 })
    expect(all).toMatchObject({ rows: { length: 31 }, next: null, searchedRows: null })
    const states = [...new Set(all.rows.map(({ state }) => state))]
    expect(states).toEqual(['running', 'buried', 'ready', 'waiting', 'cancelled', 'done'])
    for (const limit of [1, 2, 5]) {
      const paged: number[] = []
      let after: string | undefined
      do {
        const page = await jobs.search({}, { limit, after })
        expect(page.rows.length).toBeLessThanOrEqual(limit)
        paged.push(...page.rows.map(({ id }) => id))
        after = page.next ?? undefined
      } while (after !== undefined)
      expect(paged).toEqual(all.rows.map(({ id }) => id))
    }
    const count = async (text: string) => (await jobs.matching(readJobSearch(text), { limit: 100 })).rows.length
    expect(await count('error:"upstream SAID"')).toBe(3)
    expect(await count('503')).toBe(3)
    expect(await count('error:504')).toBe(0)
    expect(await count('oth')).toBe(7)
    expect(await count(`id:${cancelled},${all.rows[0]!.id}`)).toBe(2)
    expect(await count(`${cancelled}`)).toBe(1)
    expect(await count('since:1h')).toBe(31)
    expect(await count('until:1h')).toBe(0)
  })
  end()
})

test('a search by input finds the same jobs through the indexes on inputs as without them', async () => {
  const url = await databaseUrl()
  const { jobs } = await open({ url })
  const inputs = [
    { user: 42, tags: ['a', 'b'] },
    { user: '42', list: [{ name: 'Ann' }] },
    { user: 7, list: { 0: { name: 'Ann' } } },
    { user: [42, 43], ok: true },
    { text: 'nul \0' },
    'plain',
    null,
  ]
  await jobs.enqueueMany(mail, inputs)
  const { id } = await jobs.enqueue(mail, { user: 42 }, { delay: '1h' })
  const searches = [
    'input.user:42',
    'input.user:43',
    'input.list.0.name:Ann',
    'input.tags:b',
    'input.ok:true',
    'input:plain',
    'input.user:null',
  ]
  await observe(url, async (observer) => {
    const find = () =>
      Promise.all(
        searches.map(async (text) =>
          (await found(observer, readJobSearch(text))).map((job) => job.id).sort((a, b) => a - b),
        ),
      )
    const before = await find()
    expect(before[0]).toHaveLength(4)
    expect(before[0]!.at(-1)).toBe(id)
    for (const statement of inputIndexes) await sql(url, statement)
    expect(await find()).toEqual(before)
    await sql(
      url,
      `insert into holdfast.waiting (id, queue, priority, kind, payload, run_at)
      select 1000000 + i, holdfast.lock_key('default', 'queue/post'), 0, 'mail', json_build_object('user', i), now() + interval '1 day'
      from generate_series(1000, 9000) as i`,
    )
    expect(await observer.jobs.search(readJobSearch('input.user:8999'))).toMatchObject({
      rows: { length: 1 },
      searchedRows: null,
    })
    expect(await observer.jobs.search(readJobSearch('input.user:none'))).toEqual({
      rows: [],
      next: null,
      searchedRows: null,
    })
  })
})

/** The statements in the guide that create the indexes on inputs. */
const inputIndexes = /create index job_input [^;]*;[^`]*/
  .exec(readFileSync(new URL('../../docs/guides/find-jobs.md', import.meta.url), 'utf8'))![0]
  .split(';')
  .filter((statement) => statement.trim() !== '')

/** Returns the number of rows of jobs that `look` reads, through scans of any kind. */
async function rowsRead(url: string, look: (observer: Observer) => Promise<void>): Promise<number> {
  const before = await rowsReadSoFar(url)
  const session = await sqlSession(url)
  const { pid } = (await session.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!
  await look(new Observer({ read: async (text, values) => (await session.query(text, values as unknown[])).rows }))
  await session.end()
  // A session reports its reads when it ends.
  await until('the session has ended', async () => {
    return (await sql(url, 'select from pg_stat_activity where pid = $1', [pid])).length === 0
  })
  return (await rowsReadSoFar(url)) - before
}

async function rowsReadSoFar(url: string): Promise<number> {
  const [row] = await sql<{ rows: number }>(
    url,
    `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows
     from pg_stat_user_tables
     where relname = 'waiting' or relname ~ '^job'`,
  )
  return row!.rows
}
