import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlPool, sqlSession, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { rowsOf, work } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const job = defineJob('job', { queue: 'in transactions', run: (n: number) => n * 2 })

test('a job that is enqueued in a transaction of pg exists after the commit, and only then', async () => {
  const { jobs } = await open({ url: fresh.url })
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  const [kept] = await jobs.enqueueMany(job, [1, 2], { tx: client })
  expect(await jobs.find(kept!.id)).toBeNull()
  await client.query('commit')
  expect(await jobs.find(kept!.id)).toMatchObject({ state: 'ready', input: 1 })
  await client.query('begin')
  const { id } = await jobs.enqueue(job, 3, { tx: client, delay: '1h' })
  await client.query('rollback')
  expect(await jobs.find(id)).toBeNull()
})

test('a job that is enqueued in a transaction of postgres.js exists after the commit', async () => {
  const client = postgres(fresh.url, { max: 2, onnotice: () => {} })
  onTestFinished(() => client.end())
  const { jobs } = await open({ sql: client })
  const { id } = await client.begin((tx) => jobs.enqueue(job, 1, { tx }))
  expect(await jobs.find(id)).toMatchObject({ state: 'ready' })
})

test('an enqueue with tx needs no other connection than that of the caller', async () => {
  const pool = sqlPool({ connectionString: fresh.url, max: 1 })
  const { jobs } = await open({ pool })
  const fromNowhere = defineJob<unknown>('job', { queue: 'unused', run: () => {} })
  const client = await pool.connect()
  try {
    await client.query('begin')
    await within(5_000, 'Enqueueing', jobs.enqueue(fromNowhere, 1, { tx: client }))
    await client.query('commit')
  } finally {
    client.release()
  }
})

test('a job without a delay, with a delay of zero or with a time in the past is ready immediately', async () => {
  const { jobs } = await open({ url: fresh.url })
  const past = new Date(Date.now() - 3_600_000)
  for (const options of [{}, { delay: 0 }, { delay: '0s' }, { runAt: past }] as const) {
    const { id } = await jobs.enqueue(job, 1, options)
    expect(await jobs.find(id), JSON.stringify(options)).toMatchObject({ state: 'ready' })
  }
  for (const rest of ["delay => '0 s'", "run_at => now() - interval '1 h'"]) {
    const [row] = await sql<{ id: string }>(
      fresh.url,
      `select holdfast.enqueue('${job.queue}', 'x', '1', ${rest}) as id`,
    )
    expect(await jobs.find(Number(row!.id)), rest).toMatchObject({ state: 'ready' })
  }
})

test('overdue jobs all run, even more than one maintenance round moves and after more than a month', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  await holdfast.jobs.enqueueMany(job, new Array(501).fill(1), { delay: '1h' })
  await sql(url, "update holdfast.waiting set run_at = run_at - interval '30 days'")
  work(holdfast, [job])
  await until('all jobs have run', async () => (await rowsOf(url)).history === 501)
})

test('single enqueues in one turn of the event loop get different ids, with any options', async () => {
  const { jobs } = await open({ url: fresh.url })
  const refs = await Promise.all(
    Array.from({ length: 60 }, (_, n) =>
      jobs.enqueue(job, n, { priority: (n % 3) - 1, ...(n % 4 === 0 ? { delay: '1h' } : {}) }),
    ),
  )
  expect(new Set(refs.map(({ id }) => id)).size).toBe(60)
  for (const [n, { id }] of refs.entries()) {
    expect(await jobs.find(id)).toMatchObject({
      input: n,
      priority: (n % 3) - 1,
      state: n % 4 === 0 ? 'waiting' : 'ready',
    })
  }
})

test('enqueueMany keeps the order of more jobs than one statement takes, and accepts an empty list', async () => {
  const url = await databaseUrl()
  const { jobs } = await open({ url })
  const refs = await jobs.enqueueMany(
    job,
    Array.from({ length: 12_345 }, (_, n) => n),
  )
  expect(refs).toHaveLength(12_345)
  expect(refs.every(({ id }, at) => at === 0 || id > refs[at - 1]!.id)).toBe(true)
  expect(await rowsOf(url)).toMatchObject({ job: 12_345 })
  expect(await jobs.enqueueMany(job, [])).toEqual([])
})

test('holdfast.enqueue in SQL enqueues a job for now or for later', async () => {
  const holdfast = await open({ url: fresh.url, namespace: 'sql' })
  const mail = defineJob('send-email', { run: ({ to }: { to: string }) => `sent to ${to}` })
  work(holdfast, [mail])
  const enqueue = (rest: string) =>
    sql<{ id: string }>(
      fresh.url,
      `select holdfast.enqueue('default', 'send-email', '{"to": "ada"}', namespace => 'sql'${rest}) as id`,
    )
  for (const rest of ['', ', priority => 3', ", delay => '50 ms'", ", run_at => now() + interval '50 ms'"]) {
    const [row] = await enqueue(rest)
    expect(await holdfast.jobs.result(Number(row!.id))).toBe('sent to ada')
  }
  await expect(enqueue(', priority => 9')).rejects.toThrow('Expected a priority from -5 to 5, got 9')
  const queues = await sql(fresh.url, "select name from holdfast.queue where namespace = 'sql'")
  expect(queues).toEqual([{ name: 'default' }])
})

test('holdfast.enqueue in SQL accepts a payload as json, jsonb, text, or a literal or parameter without a type', async () => {
  const { jobs } = await open({ url: fresh.url, namespace: 'payloads' })
  const enqueued = async (payload: string, ...values: unknown[]) => {
    const client = await sqlSession(fresh.url)
    const text = `select holdfast.enqueue('default', 'echo', ${payload}, namespace => 'payloads') as id`
    const { rows } = await client.query<{ id: string }>(text, values)
    return (await jobs.find(Number(rows[0]!.id)))!.input
  }
  const input = { a: [1, 'x'] }
  const text = JSON.stringify(input)
  for (const payload of [`'${text}'`, `'${text}'::json`, `'${text}'::jsonb`, `'${text}'::text`]) {
    expect(await enqueued(payload), payload).toEqual(input)
  }
  expect(await enqueued("jsonb_build_object('a', 1)")).toEqual({ a: 1 })
  expect(await enqueued("json_build_object('a', 1)")).toEqual({ a: 1 })
  expect(await enqueued("to_jsonb('x'::text)")).toBe('x')
  expect(await enqueued('$1', text)).toEqual(input)
  expect(await enqueued('$1::jsonb', text)).toEqual(input)
  expect(await enqueued("'null'")).toBeNull()
  await expect(enqueued("'{'")).rejects.toThrow('invalid input syntax for type json')
  // As a trigger passes the payload.
  await sql(
    fresh.url,
    `create table made (id integer);
    create function enqueue_made() returns trigger language plpgsql as $$
      begin
        perform holdfast.enqueue('default', 'made', to_jsonb(new), namespace => 'payloads');
        return new;
      end
    $$;
    create trigger made after insert on made for each row execute function enqueue_made();
    insert into made values (7)`,
  )
  const made = await sql(fresh.url, "select payload from holdfast.job where kind = 'made'")
  expect(made).toEqual([{ payload: { id: 7 } }])
})

test.each([
  [
    "queue => null, kind => 'k', payload => '1'",
    "Expected a queue, a kind and a namespace, got null, 'k' and 'default'",
  ],
  [
    "queue => 'q', kind => null, payload => '1'",
    "Expected a queue, a kind and a namespace, got 'q', null and 'default'",
  ],
  ["queue => 'q', kind => '', payload => '1'", "Expected a queue, a kind and a namespace, got 'q', '' and 'default'"],
  [
    "queue => 'q', kind => 'k', payload => '1', namespace => null",
    "Expected a queue, a kind and a namespace, got 'q', 'k' and null",
  ],
  ["queue => 'q', kind => 'k', payload => null", 'Expected a JSON payload, got null'],
  ["queue => 'q', kind => 'k', payload => null::jsonb", 'Expected a JSON payload, got null'],
  ["queue => 'q', kind => 'k', payload => '1', priority => null", 'Expected a priority from -5 to 5, got null'],
  ["queue => 'q', kind => 'k', payload => '1', priority => 9", 'Expected a priority from -5 to 5, got 9'],
  ["queue => 'q', kind => 'k', payload => '1', lane => ''", 'Expected a lane with at least one character'],
  ["queue => 'q', kind => 'k', payload => '1', unique_key => ''", 'Expected unique_key to have 1 to 500 characters'],
])('holdfast.enqueue in SQL refuses %s with a clear message', async (given, message) => {
  await open({ url: fresh.url })
  const refused = sql(fresh.url, `select holdfast.enqueue(${given})`)
  await expect(refused).rejects.toMatchObject({ code: '22023', message: expect.stringContaining(message) })
})

test('jobs of another namespace are not claimed', async () => {
  const [one, other] = [
    await open({ url: fresh.url, namespace: 'one' }),
    await open({ url: fresh.url, namespace: 'other' }),
  ]
  const here = defineJob('here', { run: () => 'ran' })
  work(one, [here])
  const { id } = await other.jobs.enqueue(here, null)
  const mine = await one.jobs.enqueue(here, null)
  expect(await one.jobs.result(mine.id)).toBe('ran')
  expect((await other.jobs.find(id))!.state).toBe('ready')
})

test('jobs of kinds that a worker does not know are left to other workers', async () => {
  const holdfast = await open({ url: fresh.url, namespace: 'kinds' })
  const [known, unknown] = ['known', 'unknown'].map((kind) => defineJob<unknown>(kind, { run: () => kind }))
  const refs = [await holdfast.jobs.enqueue(unknown!, 1), await holdfast.jobs.enqueue(known!, 1)]
  work(holdfast, [known!])
  expect(await holdfast.jobs.result(refs[1]!.id)).toBe('known')
  expect((await holdfast.jobs.find(refs[0]!.id))!.state).toBe('ready')
  work(holdfast, [unknown!])
  expect(await holdfast.jobs.result(refs[0]!.id)).toBe('unknown')
})

test('a job that commits late with a lower id is found', async () => {
  const holdfast = await open({ url: fresh.url, namespace: 'late' })
  const seen: number[] = []
  const note = defineJob('late', { run: (n: number) => void seen.push(n) })
  work(holdfast, [note])
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  await holdfast.jobs.enqueue(note, -1, { tx: client })
  let isBusy = true
  const busy = (async () => {
    for (let n = 0; isBusy; n++) await holdfast.jobs.enqueueMany(note, new Array(20).fill(n))
  })()
  for (let enough = seen.length + 2_000; seen.length < enough; ) await new Promise((resolve) => setImmediate(resolve))
  expect(seen).not.toContain(-1)
  await client.query('commit')
  const from = performance.now()
  while (!seen.includes(-1)) {
    expect(performance.now() - from).toBeLessThan(10_000)
    await new Promise((resolve) => setImmediate(resolve))
  }
  console.log(`found ${(performance.now() - from).toFixed(0)} ms after its commit`)
  isBusy = false
  await busy
})
