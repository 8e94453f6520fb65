import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { defineBudget, defineJob, type Holdfast, JobOutcome, NonRetryableError, UsageError } from '../../src/index.js'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { caught, sql, sqlSession, until, Witness, within } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { randomFrom, seed as seedOf } from '../setup/random.js'
import { runsAll, waysOf } from '../setup/variants.js'
import { gate, intercept, rowsOf, untilState, work } from './fixture.js'

const faultsOf = (url: string) => sql(url, 'select * from holdfast.lane_faults()')

/** Waits until no lane is left. A lane is deleted after its last job has ended. */
async function untilGone(url: string): Promise<void> {
  await until('no lane is left', async () => (await sql(url, 'select from holdfast.lane')).length === 0)
  expect(await sql(url, 'select from holdfast.follow_up')).toEqual([])
}

test('jobs of a lane run one at a time, larger priorities first and then in order, while other lanes and jobs run', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const order: string[] = []
  const opening = gate()
  const job = defineJob('job', {
    run: async (name: string) => {
      order.push(name)
      if (name === 'first') await opening.opened
    },
  })
  work(holdfast, [job])
  const { id } = await holdfast.jobs.enqueue(job, 'first', { lane: 'shop:7' })
  await until('the first job runs', () => order.length === 1)
  for (const priority of [0, -5, 5]) {
    await holdfast.jobs.enqueueMany(job, [`${priority} a`, `${priority} b`], { lane: 'shop:7', priority })
  }
  await holdfast.jobs.result((await holdfast.jobs.enqueue(job, 'other lane', { lane: 'shop:8' })).id)
  await holdfast.jobs.result((await holdfast.jobs.enqueue(job, 'no lane')).id)
  await until('six jobs wait in the lane', async () => {
    const [row] = await sql<{ n: number }>(url, "select count(*)::int as n from holdfast.waiting where stage = 'lane'")
    return row!.n === 6
  })
  expect(order).toEqual(['first', 'other lane', 'no lane'])
  const [last] = await sql<{ id: number }>(url, 'select max(id)::int as id from holdfast.waiting')
  const why = (await holdfast.jobs.find(last!.id))!.waitsFor
  // The job was enqueued last with the largest priority, so only one job of the same priority is ahead.
  const running = [{ id, instance: holdfast.id }]
  expect(why).toMatchObject({ reason: 'lane', lane: 'shop:7', max: 1, running, ahead: 1 })
  expect(why!.text).toBe(`its lane shop:7: 1 of 1 slots are in use (by ${id}), behind 1 other`)
  expect(await faultsOf(url)).toEqual([])
  opening.open()
  await holdfast.jobs.result(id)
  await until('all jobs have run', () => order.length === 9)
  expect(order.slice(3)).toEqual(['5 a', '5 b', '0 a', '0 b', '-5 a', '-5 b'])
  await untilGone(url)
})

test('maintenance that waits for an earlier admission does not change the order of a lane', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: () => {} })
  const first = await holdfast.jobs.enqueue(job, null, { lane: 'shop:7', delay: '1h' })
  const second = await holdfast.jobs.enqueue(job, null, { lane: 'shop:7', delay: '1h' })
  await holdfast.close()
  const [admission, maintenance] = [await sqlSession(url), await sqlSession(url)]
  await admission.query("begin; select pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0)")
  const makeDue = (id: number) => sql(url, 'update holdfast.waiting set run_at = now() where id = $1', [id])
  await makeDue(first.id)
  const maintaining = maintenance.query('select from holdfast.job_maintain(500)')
  const blocked = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  await until('maintenance waits for the admission', async () => (await sql(url, blocked)).length > 0)
  await makeDue(second.id)
  await admission.query('select holdfast.job_admit($1)', [[first.id, second.id]])
  await admission.query('commit')
  await maintaining
  const states = await sql(url, 'select id::int, state from holdfast.job_find($1) order by id', [[first.id, second.id]])
  expect(states).toEqual([
    { id: first.id, state: 'ready' },
    { id: second.id, state: 'waiting' },
  ])
})

test('jobs of a lane that a transaction enqueues are admitted after the commit without delay, and other jobs do not wait for them', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: (n: number) => n })
  work(holdfast, [job])
  const client = await sqlSession(url)
  await client.query('begin')
  const inside = await holdfast.jobs.enqueueMany(job, [1, 2], { lane: 'a', tx: client })
  const outside = await holdfast.jobs.enqueueMany(job, [3, 4, 5], { lane: 'a' })
  for (const [at, { id }] of outside.entries()) expect(await holdfast.jobs.result(id)).toBe(at + 3)
  expect(await holdfast.jobs.find(inside[0]!.id)).toBeNull()
  await client.query('commit')
  const from = performance.now()
  expect(await holdfast.jobs.result(inside[1]!.id)).toBe(2)
  console.log(`both ran ${(performance.now() - from).toFixed(0)} ms after the commit`)
  await untilGone(url)
})

test('a job of a lane that will run again releases its slot and queues again', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const order: string[] = []
  const job = defineJob('job', {
    retry: { attempts: 2, backoff: 20 },
    run: (name: string, { attempt }) => {
      order.push(`${name} ${attempt}`)
      if (name === 'fails' && attempt === 1) throw new Error('first')
      if (name === 'later' && !order.includes('plain 1')) return JobOutcome.retryAfter(20)
      if (name === 'buried') throw new NonRetryableError('no')
      return name === 'cancels' ? JobOutcome.cancel() : name
    },
  })
  const refs = []
  for (const name of ['fails', 'later', 'buried', 'cancels', 'plain']) {
    refs.push(await holdfast.jobs.enqueue(job, name, { lane: 'a' }))
  }
  work(holdfast, [job])
  for (const [at, state] of ['done', 'done', 'buried', 'cancelled', 'done'].entries()) {
    await untilState(holdfast, refs[at]!.id, state)
  }
  expect(order.slice(0, 2)).toEqual(['fails 1', 'later 1'])
  expect(order).toContain('fails 2')
  // A buried job that is retried by hand goes through its lane again.
  expect(await holdfast.jobs.retry(refs[2]!.id)).toBe(true)
  await until(
    'the buried job has run a second time',
    () => order.filter((one) => one.startsWith('buried')).length === 2,
  )
  await untilState(holdfast, refs[2]!.id, 'buried')
  expect(await holdfast.jobs.redrive('default')).toBe(1)
  await until('the buried job has run a third time', () => order.filter((one) => one.startsWith('buried')).length === 3)
  await untilGone(url)
})

test('a job of a lane that is cancelled while it waits, is ready or runs makes room for the next job', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const opening = gate()
  const job = defineJob('job', { run: (n: number) => (n === 3 ? opening.opened : undefined) })
  const refs = await holdfast.jobs.enqueueMany(job, [0, 1, 2, 3, 4], { lane: 'a' })
  await until('four jobs wait in the lane', async () => {
    const [row] = await sql<{ n: number }>(url, "select count(*)::int as n from holdfast.waiting where stage = 'lane'")
    return row!.n === 4
  })
  // The first job is in the table job. The others wait in the lane.
  for (const at of [1, 0, 2]) expect(await holdfast.jobs.cancel(refs[at]!.id)).toBe(true)
  await untilState(holdfast, refs[3]!.id, 'ready')
  expect(await faultsOf(url)).toEqual([])
  work(holdfast, [job])
  await untilState(holdfast, refs[3]!.id, 'running')
  await holdfast.jobs.cancel(refs[3]!.id)
  opening.open()
  await untilState(holdfast, refs[4]!.id, 'done')
  await untilGone(url)
})

test('the max of the latest enqueue applies to the lane: a larger max immediately, a smaller max as jobs end', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const open_ = new Map<number, () => void>()
  const define = (max: number) =>
    defineJob('job', {
      lanes: { max },
      run: (n: number) => new Promise<void>((resolve) => open_.set(n, resolve)),
    })
  work(holdfast, [define(1)], { concurrency: 20 })
  await holdfast.jobs.enqueueMany(define(2), [0, 1, 2, 3, 4, 5], { lane: 'a' })
  await until('two jobs run', () => open_.size === 2)
  await holdfast.jobs.enqueue(define(4), 6, { lane: 'a' })
  await until('four jobs run', () => open_.size === 4)
  await holdfast.jobs.enqueue(define(1), 7, { lane: 'a' })
  await until(
    'the lane has a max of 1',
    async () => (await sql(url, 'select from holdfast.lane where max = 1')).length === 1,
  )
  for (const n of [0, 1, 2]) open_.get(n)!()
  await until('three jobs have ended', async () => (await rowsOf(url)).history === 3)
  await until('no follow-up is left', async () => (await sql(url, 'select from holdfast.follow_up')).length === 0)
  expect(open_.size).toBe(4)
  open_.get(3)!()
  for (const n of [4, 5, 6, 7]) {
    await until(`job ${n} runs`, () => open_.has(n))
    open_.get(n)!()
  }
  await untilGone(url)
})

test('a rate admits a burst of jobs immediately, and then one job after the other', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  let done = 0
  const job = defineJob<unknown>('job', {
    lanes: { max: 100, rate: { count: 10, per: '1s' }, burst: 3 },
    run: () => void done++,
  })
  work(holdfast, [job])
  await holdfast.jobs.enqueueMany(job, new Array(9).fill(null), { lane: 'a' })
  await until('all jobs have run', () => done === 9)
  // The lane admits three jobs immediately, and six more at intervals of a tenth of a second. It admits a job by an entry in
  // the table job. A busy machine may start the job later.
  const [admitted] = await sql<{ ms: number }>(
    url,
    'select (extract(epoch from max(entered_at) - min(entered_at)) * 1000)::float8 as ms from holdfast.job',
  )
  expect(admitted!.ms).toBeGreaterThan(500)
  expect(admitted!.ms).toBeLessThan(5_000)
  // The lane exists until its rate is refilled.
  await untilGone(url)
})

test('a rate whose next job is due in a month does not delay other jobs', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const lanes = { max: 2, rate: { count: 1, per: '30d' } } as const
  const monthly = defineJob<unknown>('monthly', { lanes, run: () => 'ran' })
  const job = defineJob<unknown>('job', { run: () => 'ran' })
  work(holdfast, [monthly, job])
  const [first, second] = await holdfast.jobs.enqueueMany(monthly, [1, 2], { lane: 'a' })
  expect(await holdfast.jobs.result(first!.id)).toBe('ran')
  await until(
    'the second job waits for the rate',
    async () => (await holdfast.jobs.find(second!.id))?.waitsFor?.reason === 'rate',
  )
  // Another lane admits its jobs, and maintenance finds the delayed job.
  const others = await holdfast.jobs.enqueueMany(job, [1, 2], { lane: 'b' })
  const delayed = await holdfast.jobs.enqueue(job, 3, { delay: 10 })
  for (const { id } of [...others, delayed]) expect(await holdfast.jobs.result(id, { wait: '10s' })).toBe('ran')
  // The rate that is due in a month does not make any worker poll.
  expect(await sql(url, "select due_ms from holdfast.job_run_follow_ups('{}', '{}', null)")).toEqual([{ due_ms: null }])
})

test('a lane of jobs that are enqueued with SQL belongs to its queue', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const opening = gate()
  const running: string[] = []
  const [one, other] = ['one', 'other'].map((queue) =>
    defineJob('job', {
      queue,
      run: async () => {
        running.push(queue)
        await opening.opened
      },
    }),
  )
  work(holdfast, [one!])
  work(holdfast, [other!])
  for (const queue of ['one', 'one', 'other']) {
    await sql(url, `select holdfast.enqueue('${queue}', 'job', '1', lane => 'a')`)
  }
  await until('one job of each queue runs', () => running.length === 2)
  expect(running.sort()).toEqual(['one', 'other'])
  await until('the other job waits in its lane', async () => {
    return (await sql(url, "select from holdfast.waiting where stage = 'lane'")).length === 1
  })
  opening.open()
  await untilGone(url)
  expect(running).toHaveLength(3)
})

test.skipIf(!runsAll)(
  'a lane with 100,000 waiting jobs reads few blocks per admitted job, even while an old snapshot is open',
  async () => {
    const url = await databaseUrl()
    const { jobs } = await open({ url })
    const job = defineJob<unknown>('job', { run: () => {} })
    // A session keeps an old snapshot open.
    const snapshotHolder = await sqlSession(url)
    await snapshotHolder.query('begin isolation level repeatable read')
    await snapshotHolder.query('select count(*) from holdfast.job_live')
    await jobs.enqueue(job, null, { lane: 'hot' })
    await until('the first job is admitted', async () => (await rowsOf(url)).job === 1)
    const [lane] = await sql<{ key: string; queue: string; updated_by_job: string }>(url, 'select * from holdfast.lane')
    await sql(
      url,
      `with parked as (
       insert into holdfast.waiting (id, queue, priority, kind, payload, run_at, links, stage, lane, rank, seq)
       select n, $1, 0, 'job', 'null', now(), $2, 'lane', $3, 0, n
       from (select nextval('holdfast.job_number') as n from generate_series(1, 100000)) as numbered
       returning seq
     )
     update holdfast.lane set cursors[6] = (select min(seq) - 1 from parked)`,
      [
        lane!.queue,
        JSON.stringify({ lane: { name: 'hot', max: 1, key: Number.NaN } }).replace('null', lane!.key),
        lane!.key,
      ],
    )
    const witness = new Witness(url)
    onTestFinished(() => witness.close())
    const blocks = async () => {
      const [row] = await witness.query<{ blocks: number }>(
        `select coalesce(sum(shared_blks_hit + shared_blks_read), 0)::int as blocks
       from pg_stat_statements
       where dbid = (select oid from pg_database where datname = current_database())
         and (query like '%job_run_follow_ups(%' or query like '%job_claim(%')
         and query not like '%pg_stat_statements%'`,
      )
      return row!.blocks
    }
    // Runs the statements of a worker directly, because the polling of a real worker would read blocks too.
    const before = await blocks()
    const rounds = 300
    for (let n = 0; n < rounds; n++) {
      const [{ id }] = (await witness.query<{ id: string }>('select id from holdfast.job_live')) as [{ id: string }]
      const [{ follow_ups }] = (await witness.query<{ follow_ups: string[] }>(
        'select follow_ups from holdfast.job_cancel($1, $2)',
        [id, 'next'],
      )) as [{ follow_ups: string[] }]
      await witness.query("select * from holdfast.job_run_follow_ups($1, '{}', null)", [follow_ups])
    }
    expect((await rowsOf(url)).waiting).toBe(100_000 - rounds)
    expect(await faultsOf(url)).toEqual([])
    // A scan of all waiting jobs, or of all versions of the row of the lane, would read hundreds of blocks at the end.
    const each = ((await blocks()) - before) / rounds
    console.log(`${each.toFixed(0)} blocks per admitted job`)
    expect(each).toBeLessThan(200)
  },
)

/**
 * Runs random jobs with random ends, and checks all the time that no lane or budget exceeds its max, no budget is exceeded, and the
 * counts are correct.
 */
async function walk(
  url: string,
  fleet: Holdfast[],
  { jobs, faults }: { jobs: number; faults: (random: () => number, at: number) => Promise<void> },
  seed: number,
): Promise<void> {
  const random = randomFrom(seed)
  const witness = new Witness(url)
  onTestFinished(() => witness.close())
  const max = 3
  const provider = defineBudget('provider', { max: 7 })
  const tenant = defineBudget('tenant', { max: 2 })
  const job = defineJob('job', {
    lanes: { max },
    maxCrashes: 1_000,
    retry: { attempts: 3, backoff: 5, maxBackoff: 20 },
    run: async (
      { ms, end, byTx }: { lane: string; ms: number; end: string; byTx: boolean },
      { tx, attempt, signal },
    ) => {
      if (byTx) await tx.query('select 1')
      // The job takes some time, so that the test can see a job too many of the lane next to it.
      await new Promise((resolve) => setTimeout(resolve, ms))
      signal.throwIfAborted()
      if (end === 'throw' && attempt < 3) throw new Error('as requested')
      if (end === 'bury') throw new NonRetryableError('as requested')
      if (end === 'later' && random() < 0.5) return JobOutcome.retryAfter(10)
      return end === 'cancel' ? JobOutcome.cancel() : 'done'
    },
  })
  for (const holdfast of fleet) work(holdfast, [job], { concurrency: 8 })
  const ids: number[] = []
  const ends = ['done', 'done', 'done', 'throw', 'bury', 'later', 'cancel']
  let isOver = false
  let maxSeen = 0
  const watching = (async () => {
    while (!isOver) {
      // One snapshot. Each of these jobs runs or is about to run.
      const rows = await witness.query<{ n: number }>(
        "select count(*)::int as n from holdfast.job_live where links ? 'lane' group by links->'lane'->>'name'",
      )
      for (const { n } of rows) maxSeen = Math.max(maxSeen, n)
      const over = await witness.query(
        `select name, sum(weight) as used, max
         from holdfast.job_live
         cross join jsonb_to_recordset(links->'budgets') as b (name text, scope text, weight integer, max integer)
         where links ? 'budgets' and scope is null
         group by name, max
         having sum(weight) > max`,
      )
      expect(over).toEqual([])
      expect(await witness.query('select * from holdfast.lane_faults()')).toEqual([])
    }
  })()
  for (let at = 0; ids.length < jobs; at++) {
    const lane = `lane ${Math.floor(random() * 4)}`
    const inputs = Array.from({ length: 1 + Math.floor(random() * 8) }, () => ({
      lane,
      ms: Math.floor(random() * 8),
      end: ends[Math.floor(random() * ends.length)]!,
      byTx: random() < 0.3,
    }))
    const holdfast = fleet[Math.floor(random() * fleet.length)]!
    const budgets = [
      ...(random() < 0.5 ? [{ budget: provider, weight: 1 + Math.floor(random() * 3) }] : []),
      ...(random() < 0.3 ? [tenant.of(Math.floor(random() * 2))] : []),
    ]
    const options = {
      ...(random() < 0.7 ? { lane } : {}),
      budgets,
      ...(random() < 0.3 ? { group: `group ${Math.floor(random() * 3)}` } : {}),
      priority: Math.floor(random() * 3) - 1,
      ...(random() < 0.2 ? { delay: 20 } : {}),
    }
    if (random() < 0.3) {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      await client.query('begin')
      const refs = await holdfast.jobs.enqueueMany(job, inputs, { ...options, tx: client })
      const isKept = random() < 0.7
      await client.query(isKept ? 'commit' : 'rollback')
      await client.end()
      if (isKept) ids.push(...refs.map(({ id }) => id))
    } else ids.push(...(await holdfast.jobs.enqueueMany(job, inputs, options)).map(({ id }) => id))
    if (random() < 0.3 && ids.length > 0) await holdfast.jobs.cancel(ids[Math.floor(random() * ids.length)]!)
    await faults(random, at)
  }
  const left = async () => {
    const { job, waiting } = await rowsOf(url)
    return job! + waiting!
  }
  await until('all jobs have ended', async () => (await left()) === 0, 60_000)
  isOver = true
  await watching
  expect((await rowsOf(url)).history).toBe(ids.length)
  expect(maxSeen).toBe(max)
  await untilGone(url)
}

test.each(waysOf(['required', 'none']))(
  'no lane or budget exceeds its max, and all jobs end, with anchor: %s',
  async (anchor) => {
    const seed = seedOf()
    console.log(`lanes: HOLDFAST_SEED=${seed}`)
    const url = await databaseUrl()
    const fleet = await openFleet(url, 3, { anchor })
    await walk(url, fleet, { jobs: 120, faults: async () => {} }, seed)
  },
)

test('no lane or budget exceeds its max while sessions are terminated', { timeout: 120_000 }, async () => {
  const seed = seedOf()
  console.log(`lanes: HOLDFAST_SEED=${seed}`)
  const url = await databaseUrl()
  const fleet = await openFleet(url, 3, { expiry: '2s' })
  const killer = new Witness(url)
  onTestFinished(() => killer.close())
  let kills = 0
  const faults = async (random: () => number, at: number) => {
    if (at % 12 !== 5 || kills++ > 5) return
    const sessions = await killer.sessions(fleet[Math.floor(random() * fleet.length)]!.id)
    for (const pid of sessions) await killer.terminate(pid)
  }
  await walk(url, fleet, { jobs: 150, faults }, seed)
})

test.skipIf(withoutPgBouncer)('no lane or budget exceeds its max through PgBouncer in transaction mode', async () => {
  const seed = seedOf()
  console.log(`lanes: HOLDFAST_SEED=${seed}`)
  const direct = await databaseUrl()
  const pooler = await startPooler({ mode: 'transaction', backends: 12, roundRobin: true })
  const fleet = await openFleet(pooler.through(direct), 2, { anchor: 'none' })
  await walk(direct, fleet, { jobs: 100, faults: async () => {} }, seed)
})

test('another worker admits the next job of a lane if a worker dies after it has recorded an end', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const opening = gate()
  const job = defineJob<unknown>('job', { run: () => opening.opened })
  const worker = work(holdfast, [job])
  const [first, second] = await holdfast.jobs.enqueueMany(job, [1, 2], { lane: 'a' })
  await untilState(holdfast, first!.id, 'running')
  // As if a worker had recorded the end and then died: the end is in the history, but its follow-up has not run.
  await sql(url, `select holdfast.job_done(array[id], array[fence], null, '{}') from holdfast.job_live where id = $1`, [
    first!.id,
  ])
  opening.open()
  await until('the late record was refused', () => worker.running === 0)
  expect((await sql(url, 'select from holdfast.follow_up')).length).toBe(1)
  expect(await faultsOf(url)).toEqual([])
  await worker.close()
  // The row of the epoch stays until the follow-up has run, so that maintenance finds the follow-up.
  const other = await open({ url })
  work(other, [job])
  await holdfast.close()
  expect(await within(20_000, 'The second job', other.jobs.result(second!.id))).toBeUndefined()
  await untilGone(url)
})

test('invalid lane options throw a UsageError', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const refused = async (message: string, call: () => unknown) =>
    expect((await caught(UsageError, async () => call())).message).toContain(message)
  const job = defineJob('job', { run: (_: number) => {} })
  await refused('Expected lane to be a string of 1 to 500 characters', () => jobs.enqueue(job, 1, { lane: '' }))
  await refused('Expected max to be a whole number between 1 and 1000000, got 0', () =>
    defineJob('x', { lanes: { max: 0 }, run() {} }),
  )
  await refused('lanes has no option "maximum": its options are max, rate, burst', () =>
    defineJob('x', { lanes: { maximum: 2 } as never, run() {} }),
  )
  await refused('Expected rate to be a count and a period', () =>
    defineJob('x', { lanes: { rate: 'often' as never }, run() {} }),
  )
  await refused('Expected lanes.burst in combination with lanes.rate', () =>
    defineJob('x', { lanes: { burst: 2 }, run() {} }),
  )
})

test('a unique job that waits in its lane is replaced in place, and moves if its priority or its time changes', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const opening = gate()
  const ran: string[] = []
  const job = defineJob('job', {
    run: async (name: string) => {
      ran.push(name)
      if (name === 'first') await opening.opened
    },
  })
  work(holdfast, [job])
  await holdfast.jobs.enqueue(job, 'first', { lane: 'a' })
  await until('the first job runs', () => ran.length === 1)
  const before = await holdfast.jobs.enqueue(job, 'before', { lane: 'a' })
  const options = { lane: 'a', unique: { key: 'k', existing: 'replace' } } as const
  const { id } = await holdfast.jobs.enqueue(job, 'old', options)
  await until('both jobs wait in the lane', async () => {
    return (await sql(url, "select from holdfast.waiting where stage = 'lane'")).length === 2
  })
  expect(await holdfast.jobs.enqueue(job, 'new', options)).toEqual({ id, isNew: false })
  expect(await holdfast.jobs.enqueue(job, 'urgent', { ...options, priority: 1 })).toEqual({ id, isNew: false })
  await until('the replaced job is ahead of the other job', async () => {
    const [next] = await sql<{ id: string }>(
      url,
      "select id from holdfast.waiting where stage = 'lane' order by rank, seq limit 1",
    )
    return Number(next?.id) === id
  })
  const debounced = { lane: 'a', unique: { key: 'k', existing: 'debounce' }, delay: '1h' } as const
  await holdfast.jobs.enqueue(job, 'late', debounced)
  opening.open()
  await holdfast.jobs.result(before.id)
  expect(ran).toEqual(['first', 'before'])
  expect((await holdfast.jobs.find(id))!.waitsFor).toMatchObject({ reason: 'time' })
  await holdfast.jobs.retry(id)
  await holdfast.jobs.result(id)
  expect(ran).toEqual(['first', 'before', 'late'])
  expect(await sql(url, 'select * from holdfast.lane_faults()')).toEqual([])
})

test('a job of a transaction enters its lane before a job that is enqueued after the commit', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const order: string[] = []
  const job = defineJob('job', { run: (name: string) => void order.push(name) })
  const client = await sqlSession(url)
  for (const lane of ['a', 'b', 'c', 'd', 'e']) {
    await client.query('begin')
    await holdfast.jobs.enqueue(job, `${lane} 1`, { lane, tx: client })
    await client.query('commit')
    await holdfast.jobs.enqueue(job, `${lane} 2`, { lane })
  }
  work(holdfast, [job])
  await until('all jobs have run', () => order.length === 10)
  expect([...order].sort((a, b) => a.charCodeAt(0) - b.charCodeAt(0))).toEqual(
    ['a', 'b', 'c', 'd', 'e'].flatMap((lane) => [`${lane} 1`, `${lane} 2`]),
  )
})

test('jobs keep the order of their lane if their first admission fails', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: () => {} })
  let fails = true
  intercept(holdfast, (run, text) => {
    if (!fails || !text.includes('job_run_follow_ups')) return run()
    fails = false
    throw new Error('The statement failed')
  })
  const refs = await holdfast.jobs.enqueueMany(job, new Array(2_500).fill(null), { lane: 'a' })
  await until('all jobs are in their lane', async () => {
    return (await sql(url, "select from holdfast.waiting where stage = 'time'")).length === 0
  })
  const [first] = await sql<{ id: number }>(url, 'select id::int from holdfast.job')
  expect(first!.id).toBe(refs[0]!.id)
})
