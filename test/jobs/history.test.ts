import { expect, test } from 'vitest'
import { defineJob, type JobContext, NonRetryableError, UsageError } from '../../src/index.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { gate, untilState, work } from './fixture.js'

const today = "(now() at time zone 'UTC')::date"

const clocks = { job: 'entered_at', job_end: 'ended_at', job_stopped: 'ended_at' } as const
type Table = keyof typeof clocks

/**
 * Moves the rows of the job to the last second of a new partition. The partition covers the days from `from` to `to` days ago.
 */
async function moveToPast(url: string, table: Table, id: number, from: number, to: number): Promise<string> {
  const [row] = await sql<{ name: string; from: string; to: string; count: string }>(
    url,
    `select
       '${table}_' || to_char(${today} - $1::integer, 'YYYYMMDD') as name, (${today} - $1::integer)::text as from,
       (${today} - $2::integer)::text as to`,
    [from, to],
  )
  await sql(
    url,
    `set timezone = 'UTC';
     create table if not exists holdfast.${row!.name} partition of holdfast.${table} for values from ('${row!.from}') to ('${row!.to}');
     update holdfast.${table}
     set ${clocks[table]} = timestamptz '${row!.to}' - interval '1 s'
     where ${table === 'job_end' ? `${id} = any(ids)` : `id = ${id}`}`,
  )
  return row!.name
}

async function hasTable(url: string, name: string): Promise<boolean> {
  const [row] = await sql<{ exists: boolean }>(url, 'select to_regclass($1) is not null as exists', [
    `holdfast.${name}`,
  ])
  return row!.exists
}

const retentions = [
  ['2d', 2, 1],
  ['60h', 3, 2],
  [undefined, 7, 4],
] as const

test.each(retentions)(
  'retain: %s drops partitions that are older than %i days, and partitions of entries and ends cover %i days',
  async (retain, days, width) => {
    const url = await databaseUrl()
    // The installation has created the first partitions for a retention time of seven days.
    await sql(
      url,
      `do $$ declare partition text; begin
         for partition in
           select inhrelid::regclass from pg_inherits join pg_class on oid = inhrelid
           where inhparent = any(array['holdfast.job', 'holdfast.job_end', 'holdfast.job_stopped']::regclass[])
             and pg_get_expr(relpartbound, oid) <> 'DEFAULT'
         loop
           execute 'drop table ' || partition;
         end loop;
       end $$`,
    )
    const ended = await open({ url, jobs: { retain } })
    const job = defineJob('job', {
      run: (fails: boolean) => {
        if (fails) throw new NonRetryableError('no')
      },
    })
    const worker = work(ended, [job])
    // Jobs that are enqueued before the worker is ready go to the default partition.
    await worker.ready()
    const refs = await ended.jobs.enqueueMany(job, [true, true, false, false])
    const [oldStopped, stopped, oldDone, done] = refs.map(({ id }) => id) as [number, number, number, number]
    for (const id of [oldStopped, stopped]) await untilState(ended, id, 'buried')
    for (const id of [oldDone, done]) await untilState(ended, id, 'done')
    await worker.close()
    await ended.close()
    const bounds = await sql<{ parent: Table; from: number; to: number }>(
      url,
      `select
       (select relname from pg_class where oid = inhparent) as parent, (substring(bounds from 'FROM \\(''([^'']+)''')::timestamptz at time zone 'UTC')::date - ${today} as from,
       (substring(bounds from 'TO \\(''([^'']+)''')::timestamptz at time zone 'UTC')::date - ${today} as to
     from pg_inherits
     join pg_class partition on partition.oid = inhrelid
     cross join lateral (select pg_get_expr(partition.relpartbound, partition.oid)) as b (bounds)
     where inhparent = any(array['holdfast.job', 'holdfast.job_end', 'holdfast.job_stopped']::regclass[])
       and bounds <> 'DEFAULT'
     order by 1, 2`,
    )
    for (const [table, expected] of [
      ['job', width],
      ['job_end', width],
      ['job_stopped', 1],
    ] as const) {
      const own = bounds.filter(({ parent }) => parent === table)
      expect(own[0]!.from, table).toBe(0)
      expect(own.at(-1)!.to, table).toBeGreaterThanOrEqual(2)
      for (const [at, { from, to }] of own.entries()) {
        expect(to - from, table).toBe(expected)
        if (at > 0) expect(from, table).toBe(own[at - 1]!.to)
      }
    }

    const old: string[] = []
    old.push(await moveToPast(url, 'job_stopped', oldStopped, days + 1, days))
    old.push(await moveToPast(url, 'job', oldDone, days + width, days))
    old.push(await moveToPast(url, 'job_end', oldDone, days + width, days))
    await moveToPast(url, 'job_stopped', stopped, days, days - 1)
    await moveToPast(url, 'job', done, days, days - 1)
    await moveToPast(url, 'job_end', done, days, days - 1)

    const holdfast = await open({ url, jobs: { retain } })
    work(holdfast, [defineJob('other', { run: () => {} })])
    // A read of the history would prevent its partitions from being dropped, so the test only checks their names.
    await until('the old partitions are dropped', async () => {
      const left = await Promise.all(old.map((name) => hasTable(url, name)))
      return !left.includes(true)
    })
    const states = async (...ids: number[]) =>
      Promise.all(ids.map(async (id) => (await holdfast.jobs.find(id))?.state ?? null))
    expect(await states(oldStopped, stopped, oldDone, done)).toEqual([null, 'buried', null, 'done'])
    const history = await sql<{ id: string }>(url, 'select id from holdfast.job_history order by id')
    expect(history.map(({ id }) => Number(id))).toEqual([stopped, done])
  },
)

test('the partition of a running job is kept, and ready jobs get a new entry before their partition is dropped', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const opening = gate()
  const ran: number[] = []
  const hold = defineJob('hold', { run: () => opening.opened })
  const note = defineJob('note', { run: (n: number) => void ran.push(n) })
  const idle = defineJob('idle', { queue: 'idle', run: (n: number) => void ran.push(n) })
  const running = await holdfast.jobs.enqueue(hold, null)
  const worker = work(holdfast, [hold])
  await until('one job runs', () => worker.running === 1)
  // The worker does not know this kind, so its claims skip these jobs.
  const skipped = await holdfast.jobs.enqueueMany(note, [1, 2])
  await until('both jobs are skipped', async () => (await sql(url, 'select from holdfast.job_skipped')).length === 2)
  const ready = await holdfast.jobs.enqueueMany(idle, [3, 4, 5])
  await holdfast.jobs.cancel(ready[2]!.id)
  const waiting = [...skipped, ...ready.slice(0, 2)]
  let partition = ''
  for (const { id } of [running, ...skipped, ...ready]) partition = await moveToPast(url, 'job', id, 12, 8)
  const roll = async () => {
    await sql(url, 'select holdfast.job_roll_partitions(7)')
    return hasTable(url, partition)
  }
  const find = (refs: readonly { id: number }[]) => Promise.all(refs.map(({ id }) => holdfast.jobs.find(id)))

  const before = await find(waiting)
  expect(await roll()).toBe(true)
  expect(await find([running, ...waiting])).toMatchObject([
    { state: 'running' },
    ...waiting.map(() => ({ state: 'ready' })),
  ])
  opening.open()
  await untilState(holdfast, running.id, 'done')
  await until('the claim is deleted', async () => (await sql(url, 'select from holdfast.claim')).length === 0)

  await until('the partition is dropped', async () => !(await roll()))
  expect(await find(waiting)).toEqual(before)
  const entered = await sql<{ is_again: boolean; is_new: boolean }>(
    url,
    `select entry > id as is_again, entered_at > now() - interval '1 min' as is_new from holdfast.job_ready`,
  )
  expect(entered).toEqual(waiting.map(() => ({ is_again: true, is_new: true })))
  // A second call changes nothing.
  await roll()
  expect(await sql(url, 'select from holdfast.job')).toHaveLength(4)
  expect((await holdfast.jobs.find(ready[2]!.id))?.state).toBe('cancelled')
  work(holdfast, [note, idle])
  await until('all jobs have run', async () => {
    return (await find(waiting)).every((found) => found?.state === 'done')
  })
  expect(ran.sort()).toEqual([1, 2, 3, 4])
})

test('ready jobs that are older than the retention time, in a partition that is not, keep their entries and run once', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: number[] = []
  const note = defineJob('note', { run: (n: number) => void ran.push(n) })
  const refs = await holdfast.jobs.enqueueMany(note, [1, 2, 3])
  for (const { id } of refs) await moveToPast(url, 'job', id, 10, 6)
  await sql(url, "update holdfast.job set entered_at = now() - interval '9 days'")
  const entries = () => sql(url, 'select id, entry from holdfast.job order by id, entry')
  const before = await entries()
  await sql(url, 'select holdfast.job_roll_partitions(7)')
  expect(await entries()).toEqual(before)
  work(holdfast, [note])
  await until('all jobs have run', async () => {
    const found = await Promise.all(refs.map(({ id }) => holdfast.jobs.find(id)))
    return found.every((job) => job?.state === 'done')
  })
  expect(ran.sort()).toEqual([1, 2, 3])
})

test('a job that got a new entry runs once where its old entry was kept, as in a copy by logical replication', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: number[] = []
  const note = defineJob('note', { run: (n: number) => void ran.push(n) })
  const refs = await holdfast.jobs.enqueueMany(note, [1, 2])
  await sql(url, "select holdfast.job_re_enter(clock_timestamp() + interval '1 day')")
  expect(await sql(url, 'select from holdfast.job')).toHaveLength(4)
  expect(await sql(url, 'select from holdfast.job_ready')).toHaveLength(2)
  work(holdfast, [note])
  for (const { id } of refs) await untilState(holdfast, id, 'done')
  await until('no entry is left', async () => (await sql(url, 'select from holdfast.job_live')).length === 0)
  expect(ran.sort()).toEqual([1, 2])
})

test('jobs.retain refuses less than a day, and jobs refuses unknown options', async () => {
  const url = await databaseUrl()
  const error = await caught(UsageError, open({ url, jobs: { retain: '1h' } }))
  expect(error.message).toBe('Expected retain to be a duration of at least 1d and at most 3650d, got "1h" (string)')
  const unknown = await caught(UsageError, open({ url, jobs: { kept: '1d' } as never }))
  expect(unknown.message).toBe('jobs has no option "kept": its options are retain')
})

test('jobs of a kind with keep outlive their partitions, and are found, listed and counted once until keep has passed', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, jobs: { retain: '2d' } })
  const run = (fails: boolean, job: Pick<JobContext, 'progress'>) => {
    job.progress({ done: 1, total: 2 })
    if (fails) throw new NonRetryableError('no')
    return { pages: 12 }
  }
  const kept = defineJob('kept', { keep: '30d', run })
  const plain = defineJob('plain', { run })
  const worker = work(holdfast, [kept, plain])
  await worker.ready()
  const [done, buried] = await holdfast.jobs.enqueueMany(kept, [false, true])
  const other = await holdfast.jobs.enqueue(plain, false)
  const before = await untilState(holdfast, done!.id, 'done')
  await untilState(holdfast, other.id, 'done')
  await untilState(holdfast, buried!.id, 'buried')
  await worker.close()
  await holdfast.close()
  const old: string[] = []
  for (const table of ['job', 'job_end'] as const)
    for (const { id } of [done!, other]) old.push(await moveToPast(url, table, id, 3, 2))
  await moveToPast(url, 'job', buried!.id, 3, 2)
  old.push(await moveToPast(url, 'job_stopped', buried!.id, 3, 2))

  const later = await open({ url, jobs: { retain: '2d' } })
  work(later, [kept, plain])
  await until('the old partitions are dropped', async () => {
    const left = await Promise.all(old.map((name) => hasTable(url, name)))
    return !left.includes(true)
  })
  expect(await later.jobs.find(other.id)).toBeNull()
  expect(await later.jobs.find(done!.id)).toEqual({
    ...before,
    enqueuedAt: expect.any(Date),
    endedAt: expect.any(Date),
  })
  expect(await later.jobs.find(buried!.id)).toMatchObject({ state: 'buried', error: { message: 'no' } })
  expect(await later.jobs.retry(buried!.id)).toBe(false)
  const listed = await later.jobs.list({ state: ['done', 'buried'] })
  expect(listed.jobs.map(({ id, state }) => [id, state])).toEqual([
    [buried!.id, 'buried'],
    [done!.id, 'done'],
  ])
  expect(await sql(url, 'select id from holdfast.job_history')).toHaveLength(2)
  await sql(url, 'update holdfast.job_archive set keep_until = now()')
  await sql(url, 'select holdfast.job_roll_partitions(2)')
  expect(await later.jobs.find(done!.id)).toBeNull()
})

test('ends and removals are kept as long as the entries of their jobs', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const opening = gate()
  const ran: number[] = []
  const hold = defineJob('hold', { run: () => opening.opened })
  const note = defineJob('note', { queue: 'idle', run: (n: number) => void ran.push(n) })
  const running = await holdfast.jobs.enqueue(hold, null)
  const worker = work(holdfast, [hold])
  await until('one job runs', () => worker.running === 1)
  const [done, cancelled, ready] = await holdfast.jobs.enqueueMany(note, [1, 2, 3])
  await holdfast.jobs.cancel(cancelled!.id)
  const first = work(holdfast, [note], { concurrency: 1 })
  await untilState(holdfast, done!.id, 'done')
  await first.close()
  const again = await holdfast.jobs.enqueueMany(note, [4, 5])
  await holdfast.jobs.cancel(again[1]!.id)
  // The claim of the running job keeps the partition of the entries.
  for (const { id } of [running, done!, cancelled!, ready!, ...again]) await moveToPast(url, 'job', id, 26, 22)
  for (const { id } of [done!, ready!]) await moveToPast(url, 'job_end', id, 26, 22)
  await sql(url, "update holdfast.job_removed set removed_at = now() - interval '23 days'")
  await sql(url, 'select holdfast.job_roll_partitions(7)')
  const ids = [done!, ready!].map(({ id }) => id)
  const states = async () =>
    (await sql<{ state: string }>(url, 'select state from holdfast.job_find($1)', [ids])).map(({ state }) => state)
  expect(await states()).toEqual(['done', 'done'])
  expect(await sql(url, 'select * from holdfast.job_lost()')).toEqual([])
  work(holdfast, [note])
  await untilState(holdfast, again[0]!.id, 'done')
  expect(ran).toEqual([1, 3, 4])
})

test('a job that is replaced while it gets a new entry runs once, with its new input', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: number[] = []
  const note = defineJob('note', { run: (n: number) => void ran.push(n) })
  const { id } = await holdfast.jobs.enqueue(note, 1, { unique: 'k' })
  const client = await sqlSession(url)
  await client.query("begin; select holdfast.job_re_enter(clock_timestamp() + interval '1 day')")
  const replacing = holdfast.jobs.enqueue(note, 2, { unique: { key: 'k', existing: 'replace' } })
  const blocked = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  await until('the call waits', async () => (await sql(url, blocked)).length > 0)
  await client.query('commit')
  expect(await replacing).toMatchObject({ id, isNew: false })
  work(holdfast, [note])
  await untilState(holdfast, id, 'done')
  await until('no entry is left', async () => (await sql(url, 'select from holdfast.job_live')).length === 0)
  expect(ran).toEqual([2])
})

test('a job that waits for a retry of a failed job runs when the failed job has been deleted or archived', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const fail = () => {
    throw new NonRetryableError('no')
  }
  const plain = defineJob('plain', { run: fail })
  const kept = defineJob('kept', { keep: '30d', run: fail })
  const dependent = defineJob('dependent', { run: () => {} })
  work(holdfast, [plain, kept, dependent])
  for (const definition of [plain, kept]) {
    const failed = await holdfast.jobs.enqueue(definition, null)
    const waiting = await holdfast.jobs.enqueue(dependent, null, { after: [failed], ifFailed: 'wait' })
    await untilState(holdfast, failed.id, 'buried')
    await until('it waits', async () => (await sql(url, 'select from holdfast.dependency')).length === 1)
    await moveToPast(url, 'job', failed.id, 12, 8)
    await moveToPast(url, 'job_stopped', failed.id, 12, 8)
    await sql(url, 'select holdfast.job_archive_ended(7, 0, 1000)')
    await sql(url, 'select holdfast.job_roll_partitions(7)')
    await untilState(holdfast, waiting.id, 'done')
  }
})
