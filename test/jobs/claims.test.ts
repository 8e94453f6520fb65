import { expect, onTestFinished, test } from 'vitest'
import { defineJob, MixedClaimsError, SessionLocksUnavailableError, UsageError } from '../../src/index.js'
import { caught, sql, sqlSession, until, within } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'
import { gate, rowsOf, untilState, work } from './fixture.js'

const advisory = { claims: 'advisory' } as const

/** The locks on jobs: whose they are. */
const locksOf = (url: string) =>
  sql<{ id: number; pid: number }>(
    url,
    "select object::int as id, pid from holdfast.job_locks() where class = holdfast.lock_class('job') order by object",
  )

test('advisory claims need an anchor, and say so', async () => {
  const { jobs } = await open({ url: await databaseUrl(), anchor: 'none', jobs: advisory })
  const job = defineJob('job', { run: () => {} })
  const error = await caught(SessionLocksUnavailableError, () => jobs.work([job]))
  expect(error.message).toBe('This instance was opened with anchor: "none", so it has no session that can hold locks')
  expect(error.hint).toBe(
    'Open with an anchor (the default), or use leases, locks.inTransaction, and jobs with claims: "rows".',
  )
  // To enqueue, no lock is needed.
  await jobs.enqueue(job, null)
  const mistake = await caught(UsageError, open({ url: 'postgres://nowhere', jobs: { claims: 'row' as 'rows' } }))
  expect(mistake.message).toBe('Expected claims to be "rows" or "advisory", got "row" (string)')
})

test('the two ways do not serve one queue at a time', async () => {
  const url = await databaseUrl()
  const [rows, locks] = [await open({ url }), await open({ url, jobs: advisory })]
  const job = defineJob('job', { queue: 'shared', run: () => 'ran' })
  const first = work(rows, [job])
  await first.ready()
  const second = work(locks, [job])
  const error = await caught(MixedClaimsError, second.ready())
  expect(error.message).toBe(
    `Expected all workers of the queue "shared" to use claims: 'advisory', but the instance ${rows.id} uses claims: 'rows'`,
  )
  expect(error).toMatchObject({ code: 'MIXED_CLAIMS', retryable: true, queue: 'shared', instance: rows.id })
  expect(error.hint).toContain("open this instance with jobs: { claims: 'rows' }")
  // Another queue may be served in the other way; and this one as soon as the first is gone.
  const elsewhere = work(locks, [defineJob('job', { queue: 'other', run: () => {} })])
  await elsewhere.ready()
  await first.close()
  await until('it begins', () =>
    second.ready().then(
      () => true,
      () => false,
    ),
  )
  const { id } = await rows.jobs.enqueue(job, null)
  expect(await rows.jobs.result(id)).toBe('ran')
  await second.close()
  await expect(second.ready()).rejects.toThrow('The worker is closed')
})

test('a running job is locked by the session of its worker, and nothing is written on its row', async () => {
  const url = await databaseUrl()
  const [holdfast, other] = [await open({ url, jobs: advisory }), await open({ url, jobs: advisory })]
  const opening = gate()
  onTestFinished(opening.open)
  const job = defineJob('job', { run: () => opening.opened })
  const [first, second] = [work(holdfast, [job]), work(holdfast, [job])]
  const refs = await other.jobs.enqueueMany(job, [1, 2, 3])
  const ids = refs.map(({ id }) => id)
  await until('all run', () => first.running + second.running === 3)
  const pid = await anchorPid(url, holdfast)
  expect(await locksOf(url)).toEqual(ids.map((id) => ({ id, pid })))
  expect(await sql(url, 'select from holdfast.job where session is not null or xmax <> 0')).toEqual([])
  for (const id of ids) {
    expect(await other.jobs.find(id)).toMatchObject({
      state: 'running',
      instance: holdfast.id,
      claimedAt: expect.any(Date),
    })
  }
  opening.open()
  for (const id of ids) await other.jobs.result(id)
  await until('nothing is locked', async () => (await locksOf(url)).length === 0)
  await Promise.all([first.close(), second.close()])
  expect(await rowsOf(url)).toEqual({ job: 0, waiting: 0, claim: 0, worker: 0, history: 3 })
})

test('a job whose end is being written by a session that dies is not claimed meanwhile', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, jobs: advisory })
  const ran: number[] = []
  const job = defineJob('job', { run: (_: null, { attempt }) => void ran.push(attempt) })
  const { id } = await holdfast.jobs.enqueue(job, null)
  // As an end by another life would hold it: its row is deleted, and that is not yet committed.
  const client = await sqlSession(url)
  await client.query('begin')
  await client.query('delete from holdfast.job where id = $1', [id])
  work(holdfast, [job])
  const marker = defineJob('job', { run: () => {} })
  await holdfast.jobs.result((await holdfast.jobs.enqueue(marker, null)).id)
  expect(ran).toHaveLength(1)
  await client.query('rollback')
  // Now it is ready again, whatever the failed end has left on its row.
  await until('it has run', () => ran.length === 2)
})

test('an end is refused in the moment in which the session is gone, before anybody has taken over', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, jobs: advisory })
  const opening = gate()
  onTestFinished(opening.open)
  const job = defineJob('job', { run: () => opening.opened })
  const worker = work(holdfast, [job])
  const { id } = await holdfast.jobs.enqueue(job, null)
  await until('it runs', () => worker.running === 1)
  const [claim] = await sql<{ fence: string }>(url, 'select fence::text from holdfast.claim')
  const client = await sqlSession(url)
  // Nobody takes over meanwhile.
  await client.query('begin')
  await client.query("select pg_advisory_xact_lock(holdfast.lock_class('job maintenance'), 0)")
  const pid = await anchorPid(url, holdfast)
  await sql(url, 'select pg_terminate_backend($1)', [pid])
  await until('its locks are gone', async () => (await locksOf(url)).every((lock) => lock.pid !== pid))
  const [answer] = await sql<{ recorded: string[] }>(
    url,
    `select recorded from holdfast.job_done('{${id}}', '{${claim!.fence}}', '{${id}}', null, '{${claim!.fence}}')`,
  )
  expect(answer!.recorded).toEqual([])
  // And the claim still leads to it.
  expect(await rowsOf(url)).toMatchObject({ job: 1, claim: 1, history: 0 })
  await client.query('rollback')
  opening.open()
  await untilState(holdfast, id, 'done')
  expect(await holdfast.jobs.find(id)).toMatchObject({ crashes: 1 })
})

test('a full lock table fails a claim, which leaves nothing locked', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, jobs: advisory })
  // As if one lock had failed after others were granted.
  const ran: number[] = []
  const job = defineJob('job', { run: (n: number) => void ran.push(n) })
  await sql(
    url,
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no' using errcode = '53200'; end $$;
     create trigger refuse before insert on holdfast.claim for each row execute function refuse()`,
  )
  await holdfast.jobs.enqueueMany(job, [1, 2])
  const worker = work(holdfast, [job])
  await worker.ready()
  const client = await sqlSession(url)
  const failures = async () => {
    const { rows } = await client.query(
      'select sum(xact_rollback)::int as count from pg_stat_database where datname = current_database()',
    )
    return rows[0].count as number
  }
  const before = await failures()
  await until('claims have failed', async () => (await failures()) > before)
  await sql(url, 'drop trigger refuse on holdfast.claim')
  await until('both have run', () => ran.length === 2)
  await within(5_000, 'Closing', worker.close())
  expect(await locksOf(url)).toEqual([])
})

test('a cancelled job of a dead worker ends as cancelled', async () => {
  const url = await databaseUrl()
  const [holdfast, other] = [await open({ url, jobs: advisory }), await open({ url, jobs: advisory })]
  const begun = gate()
  let runs = 0
  const job = defineJob('job', {
    run: async () => {
      runs++
      begun.open()
      await new Promise(() => {})
    },
  })
  const worker = holdfast.jobs.work([job])
  const { id } = await other.jobs.enqueue(job, null)
  await begun.opened
  expect(await other.jobs.cancel(id, 'not wanted')).toBe(true)
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, holdfast)])
  const closing = worker.close({ within: 10 })
  work(other, [job])
  await untilState(other, id, 'cancelled')
  expect(runs).toBe(1)
  await closing
})

test('whoever looks sees that a job runs, also beside others: of its workflow, of its lane, in its queue', async () => {
  const holdfast = await open({ url: await databaseUrl(), jobs: advisory })
  const { jobs } = holdfast
  const opening = gate()
  onTestFinished(opening.open)
  const job = defineJob('job', { run: () => opening.opened })
  const worker = work(holdfast, [job], { concurrency: 2 })
  const workflow = await jobs.enqueueWorkflow((flow) => {
    flow.add(job, 2, { after: [flow.add(job, 1)] })
  })
  const [first, second] = workflow.jobs.map(({ id }) => id)
  const [placed, parked] = await jobs.enqueueMany(job, [1, 2], { lane: 'a' })
  await until('two run', () => worker.running === 2)
  const { id: ready } = await jobs.enqueue(job, 3)
  expect((await jobs.workflow(first!))!.jobs).toMatchObject([
    { state: 'running', attempts: 1, claimedAt: expect.any(Date) },
    { state: 'waiting', attempts: 0, claimedAt: undefined },
  ])
  const waitsFor = async (id: number) => (await jobs.find(id))!.waitsFor
  expect(await waitsFor(second!)).toMatchObject({ reason: 'jobs', jobs: [{ id: first, state: 'running' }] })
  const running = [{ id: placed!.id, instance: holdfast.id }]
  expect(await waitsFor(parked!.id)).toMatchObject({ reason: 'lane', running })
  expect(await waitsFor(ready)).toMatchObject({ reason: 'turn', ahead: 0 })
})
