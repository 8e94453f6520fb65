import { expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { sql, sqlSession, stays, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { runsAll } from '../setup/variants.ts'
import { anchorModes, gate, intercept, untilState, work } from './fixture.js'

/** Counts the claims and the maintenance runs of a database in sequences, which no rollback resets. */
async function count(url: string): Promise<() => Promise<{ claims: number; maintenance: number }>> {
  const session = await sqlSession(url)
  await session.query(`
    create schema counted;
    create sequence counted.claims;
    create sequence counted.maintenance;
    alter function holdfast.job_claim set schema counted;
    alter function holdfast.job_maintain set schema counted;
    create function holdfast.job_claim(
      session integer, token bigint, queues bigint[], kinds text[], max_count integer, announces boolean, is_thorough boolean
    )
    returns table (state text, fence bigint, jobs text, is_drained boolean, large_id bigint, large_input json)
    language plpgsql as $$
    begin
      perform nextval('counted.claims');
      select * into state, fence, jobs, is_drained
      from counted.job_claim(session, token, queues, kinds, max_count, announces, is_thorough);
      return next;
    end
    $$;
    create function holdfast.job_maintain(max_count integer, out due_ms integer, out moved integer, out taken_over bigint[])
    language plpgsql as $$
    begin
      perform nextval('counted.maintenance');
      select * into due_ms, moved, taken_over from counted.job_maintain(max_count);
    end
    $$`)
  return async () => {
    const [row] = await sql<{ claims: string; maintenance: string }>(
      url,
      `select (select last_value from counted.claims) as claims, (select last_value from counted.maintenance) as maintenance`,
    )
    return { claims: Number(row!.claims), maintenance: Number(row!.maintenance) }
  }
}

async function idleWorker(url: string, options: { anchor?: 'required' | 'none' } = {}) {
  const holdfast = await open({ url, ...options })
  const done: number[] = []
  const job = defineJob('job', { run: (n: number) => void done.push(n) })
  await work(holdfast, [job]).ready()
  await until(
    'the worker sleeps',
    async () => (await sql(url, 'select from holdfast.worker where sleeping')).length === 1,
  )
  return { holdfast, job, done }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

test('jobs that arrive one by one cost a worker little more than one claim each, and no maintenance per job', async () => {
  const url = await databaseUrl()
  const counts = await count(url)
  const { holdfast, job, done } = await idleWorker(url)
  const jobs = 30
  const [before, from] = [await counts(), performance.now()]
  for (let n = 0; n < jobs; n++) {
    await holdfast.jobs.enqueue(job, n)
    await until('the job is done', () => done.length === n + 1)
    // A worker that is not woken up would poll within this time.
    await pause(40)
  }
  const [after, seconds] = [await counts(), (performance.now() - from) / 1_000]
  // The limit includes the first polls after the worker asked for wake-ups, and one more claim after a claim that found
  // nothing.
  expect(after.claims - before.claims).toBeLessThan(1.5 * jobs + 12)
  // Earlier, each wake-up started maintenance, so that it ran at least once per job.
  expect(after.maintenance - before.maintenance).toBeLessThan(3 + 4 * seconds)
})

for (const { name, anchor } of anchorModes)
  test(`an enqueued job wakes a free worker of the same instance without a notification, ${name}`, async () => {
    const url = await databaseUrl()
    const { holdfast, job, done } = await idleWorker(url, { anchor })
    const session = await sqlSession(url)
    const notifications: string[] = []
    session.on('notification', ({ payload }) => notifications.push(payload ?? ''))
    await session.query('listen holdfast')
    // Afterwards, a worker that is not woken would wait for about a second.
    await pause(1_000)
    const from = performance.now()
    const jobs = 10
    for (let n = 0; n < jobs; n++) {
      await holdfast.jobs.enqueue(job, n)
      await until('the job is done', () => done.length === n + 1)
    }
    expect(performance.now() - from).toBeLessThan(3_000)
    await session.query('select')
    // A job that is enqueued while the worker makes a claim sends a notification.
    expect(notifications.filter((payload) => payload.startsWith('jobs-ready')).length).toBeLessThan(jobs)
  })

test('an instance whose worker has a job shares further jobs with the workers of other instances', async () => {
  const url = await databaseUrl()
  const [first, second] = await Promise.all([open({ url }), open({ url })])
  const blocked = gate()
  const counts = [0, 0]
  const jobs = [0, 1].map((at) =>
    defineJob('job', {
      run: (_: number) => {
        counts[at]!++
        return blocked.opened
      },
    }),
  )
  await work(first, [jobs[0]!], { concurrency: 20 }).ready()
  await work(second, [jobs[1]!], { concurrency: 20 }).ready()
  await until(
    'both workers sleep',
    async () => (await sql(url, 'select from holdfast.worker where sleeping')).length === 2,
  )
  for (let n = 1; n <= 20; n++) {
    await first.jobs.enqueue(jobs[0]!, n)
    await until('the job runs', () => counts[0]! + counts[1]! === n)
  }
  expect(Math.min(...counts)).toBeGreaterThan(0)
  blocked.open()
})

test('full workers that are woken pass the wake-up on until a worker with a free slot runs the job', async () => {
  const url = await databaseUrl()
  const [full, idle] = await Promise.all([open({ url }), open({ url })])
  const blocked = gate()
  let held = 0
  const done: number[] = []
  const holding = defineJob('job', {
    run: (_: number) => {
      held++
      return blocked.opened
    },
  })
  const workers = Array.from({ length: 6 }, () => work(full, [holding], { concurrency: 1 }))
  await Promise.all(workers.map((worker) => worker.ready()))
  const sleeping = async (slots: number) =>
    (await sql(url, 'select from holdfast.worker where sleeping and slots = $1', [slots])).length
  await until('all workers sleep', async () => (await sleeping(1)) === workers.length)
  for (let n = 1; n <= workers.length; n++) {
    await full.jobs.enqueue(holding, 0)
    await until('the job runs', () => held === n)
  }
  await work(idle, [defineJob('job', { run: (n: number) => void done.push(n) })], { concurrency: 2 }).ready()
  // Afterwards, the free worker polls every two seconds or less often.
  await until('the free worker sleeps', async () => (await sleeping(2)) === 1)
  await pause(2_000)
  const from = performance.now()
  for (let n = 1; n <= 8; n++) {
    await full.jobs.enqueue(holding, n)
    await until('the free worker has run the job', () => done.length === n)
  }
  expect(performance.now() - from).toBeLessThan(4_000)
  blocked.open()
})

test('a worker that has just begun looks for dead workers, because it may have missed the announcement of their jobs', async () => {
  const url = await databaseUrl()
  const counts = await count(url)
  await idleWorker(url)
  const { maintenance } = await counts()
  await until('maintenance has run four more times', async () => (await counts()).maintenance >= maintenance + 4, 4_000)
})

test('a delayed job starts maintenance on time, although all instances are idle', async () => {
  const url = await databaseUrl()
  const { holdfast, job, done } = await idleWorker(url)
  // Maintenance runs rarely after five seconds without work.
  await pause(6_000)
  const from = performance.now()
  await holdfast.jobs.enqueue(job, 1, { delay: '300ms' })
  await until('the job is done', () => done.length === 1)
  // Idle maintenance alone would find the job after up to five seconds.
  expect(performance.now() - from).toBeLessThan(2_500)
}, 20_000)

test.runIf(runsAll)(
  'an idle fleet runs no maintenance after an instance without workers has enqueued a job',
  async () => {
    const url = await databaseUrl()
    const counts = await count(url)
    const { job, done } = await idleWorker(url)
    const { jobs } = await open({ url })
    await jobs.enqueue(job, 1)
    await until('the job is done', () => done.length === 1)
    // Maintenance runs rarely after five seconds without work.
    await pause(8_000)
    const before = await counts()
    await pause(12_000)
    // Without a look that postpones it, maintenance would run every 3.5 to 5.5 seconds.
    expect((await counts()).maintenance - before.maintenance).toBeLessThan(2)
  },
  40_000,
)

test('an instance without workers runs no maintenance while other instances have work', async () => {
  const url = await databaseUrl()
  const counts = await count(url)
  await open({ url })
  // The last value of a sequence is 1 before and after its first use.
  await sql(url, "select nextval('counted.maintenance')")
  await sql(url, "select pg_notify(holdfast.notification_channel(), 'jobs-running 1')")
  await stays('no maintenance runs', async () => (await counts()).maintenance === 1, 1_000)
})

test('a worker finds the first job of a priority that was never used before', async () => {
  const url = await databaseUrl()
  const { holdfast, job, done } = await idleWorker(url)
  for (const [n, priority] of [0, 3, -2, 5].entries()) {
    const from = performance.now()
    await holdfast.jobs.enqueue(job, n, { priority })
    await until('the job is done', () => done.length === n + 1)
    expect(performance.now() - from).toBeLessThan(1_500)
  }
})

test('job_maintain returns no number while another session runs maintenance, so that a request is not forgotten', async () => {
  const url = await databaseUrl()
  await open({ url })
  const [one, other] = [await sqlSession(url), await sqlSession(url)]
  await one.query('begin')
  const maintain = 'select moved from holdfast.job_maintain(1)'
  await until('a session runs maintenance', async () => (await one.query(maintain)).rows[0].moved !== null)
  expect((await other.query(maintain)).rows).toEqual([{ moved: null }])
  await one.query('rollback')
})

test('a worker that falls asleep is marked as sleeping although the statement that marked it as awake is slow', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const { database } = holdfast.context
  const { query } = database
  onTestFinished(() => void Object.assign(database, { query }))
  const late: Promise<unknown>[] = []
  Object.assign(database, {
    query(...given: Parameters<typeof query>) {
      if (!given[0].includes('set sleeping') || given[1]![2] !== false) return query(...given)
      const sent = new Promise((resolve) => setTimeout(resolve, 1_000)).then(() => query(...given))
      late.push(sent)
      return sent
    },
  })
  const quick = defineJob<unknown>('quick', { run: () => {} })
  work(holdfast, [quick])
  await until('the worker marks itself as awake', async () => {
    // Without a pause, because a worker that has been busy for a while marks itself as awake.
    for (let n = 0; n < 100 && late.length === 0; n++) await holdfast.jobs.enqueueMany(quick, [1, 2, 3])
    return late.length > 0
  })
  await Promise.all(late)
  const sleeping = async () =>
    (await sql<{ sleeping: boolean }>(url, 'select sleeping from holdfast.worker'))[0]!.sleeping
  await until('the worker is marked as sleeping', sleeping)
})

test('a worker whose looks fail keeps its session, and finds jobs by polling', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, expiry: '2s' })
  const losses: unknown[] = []
  holdfast.on('instance.lost', ({ reason }) => losses.push(reason))
  await sql(url, 'alter function holdfast.job_look rename to job_look_away')
  const done: number[] = []
  const job = defineJob('job', { run: (n: number) => void done.push(n) })
  await work(holdfast, [job]).ready()
  await until(
    'the worker sleeps',
    async () => (await sql(url, 'select from holdfast.worker where sleeping')).length === 1,
  )
  for (const n of [1, 2, 3]) {
    // No notification wakes the worker. The pauses between its polls are longer each time, and longer than the heartbeats.
    await sql(url, 'update holdfast.worker set sleeping = false')
    await holdfast.jobs.enqueue(job, n)
    await until('the job is done', () => done.length === n)
  }
  expect(losses).toEqual([])
})

test('maintenance runs less and less often while a transaction has locked a due job', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: () => {} })
  const { id } = await holdfast.jobs.enqueue(job, null, { delay: 1_500 })
  const client = await sqlSession(url)
  await client.query('begin')
  await client.query('select from holdfast.waiting where id = $1 for key share', [id])
  let runs = 0
  intercept(holdfast, (run, text) => {
    if (text.includes('job_maintain')) runs++
    return run()
  })
  work(holdfast, [job])
  await until(
    'the job is due',
    async () => (await sql(url, 'select from holdfast.waiting where run_at < clock_timestamp()')).length === 1,
  )
  runs = 0
  await stays('the job is locked', () => true, 2_000)
  expect(runs).toBeLessThan(25)
  await client.query('commit')
  await untilState(holdfast, id, 'done')
})
