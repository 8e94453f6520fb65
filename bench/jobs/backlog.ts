// Measures claims from a backlog of two million jobs, half of them due and half delayed, and claims from a growing backlog.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast, type JobDefinition } from 'holdfast'
import pg from 'pg'
import { median, type Progress } from '../measure.ts'
import { benchDatabase } from '../server.ts'

const half = 1_000_000
const laneJobs = 100_000
const drainMs = 4_000

/** Measures the statement that claims ten jobs: from a queue with only these ten jobs, and from a queue with a backlog. */
export function backlog() {
  return withClaimFixture(async ({ holdfast, filed, client, tookMs, addDue, job }) => {
    await tookMs()
    const emptyMs = await tookMs()
    await addDue(half)
    await client.query(`
      insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at)
      select nextval('holdfast.job_number'), queue, priority, kind, payload, max_crashes, now() + interval '1 day'
      from (select ${job}) as one, generate_series(1, ${half})`)
    // The first job occupies the lane. The second job and its copies wait behind the first job.
    await holdfast.jobs.enqueueMany(filed, [0, 1], { lane: 'hot' })
    while ((await client.query("select from holdfast.waiting where stage = 'lane'")).rowCount === 0) await sleep(20)
    await client.query(`
      insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, links, stage, lane, rank, seq)
      select n, queue, priority, kind, payload, max_crashes, run_at, links, stage, lane, rank, n
      from (
        select nextval('holdfast.job_number') as n, w.*
        from (select * from holdfast.waiting where stage = 'lane' limit 1) as w, generate_series(2, ${laneJobs})
        offset 0
      ) as copies`)
    // Without this checkpoint, the server would write the new rows to disk during the measurement.
    await client.query('checkpoint')
    await tookMs()
    const fullMs = await tookMs()
    return { jobs: 2 * half, emptyMs: round(emptyMs), fullMs: round(fullMs), times: round(fullMs / emptyMs) }
  })
}

/** Measures a claim of ten jobs for each number of due jobs, and the throughput of one worker during a few seconds. */
export function growing(counts: number[], progress: Progress) {
  return withClaimFixture(async ({ holdfast, client, tookMs, addDue }) => {
    const points: { count: number; claimMs: number; perSecond: number }[] = []
    await tookMs()
    for (const count of counts) {
      progress(`growth: ${count} jobs due`)
      const [{ there: existing }] = (await client.query('select count(*)::integer as there from holdfast.job')).rows
      await addDue(count - existing)
      await client.query('checkpoint')
      await tookMs()
      const claimMs = await tookMs()
      points.push({ count, claimMs: round(claimMs), perSecond: Math.round(await drainRate(holdfast, count)) })
    }
    return points
  })
}

/** Runs a worker in this process until it has run all jobs or `drainMs` have passed. Returns its jobs per second. */
async function drainRate(holdfast: Holdfast, count: number) {
  let done = 0
  const from = performance.now()
  const worker = holdfast.jobs.work([defineJob('filed', { queue: 'filed', run: () => void done++ })])
  while (done < count && performance.now() - from < drainMs) await sleep(5)
  const perSecond = (done / (performance.now() - from)) * 1_000
  await worker.close()
  return perSecond
}

interface ClaimFixture {
  holdfast: Holdfast
  filed: JobDefinition<unknown>
  client: pg.Client
  tookMs(): Promise<number>
  addDue(count: number): Promise<unknown>
  job: string
}

async function withClaimFixture<Result>(measure: (fixture: ClaimFixture) => Promise<Result>) {
  const database = await benchDatabase()
  const { url } = database
  const holdfast = await Holdfast.open({ url })
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  // The statements below claim on behalf of this worker's epoch, which serves another queue.
  const worker = holdfast.jobs.work([defineJob('none', { queue: 'none', run() {} })])
  try {
    const filed = defineJob<unknown>('filed', { queue: 'filed', run() {} })
    const ten = Array.from({ length: 10 }, (_, at) => ({ at }))
    await holdfast.jobs.enqueueMany(filed, ten)
    const { queue } = (await client.query('select queue from holdfast.job limit 1')).rows[0]
    const job = `${queue}::bigint as queue, 0::smallint as priority, 'filed' as kind, '{}'::json as payload, 3 as max_crashes`
    const epoch = await session(client)
    let token = 0
    const tookMs = async () => {
      const all: number[] = []
      for (let at = 0; at < 300; at++) {
        await holdfast.jobs.enqueueMany(filed, ten)
        const from = performance.now()
        const { rows } = await client.query(claim, [epoch, token++, [queue]])
        all.push(performance.now() - from)
        const [{ fence, ids }] = rows
        if (ids.length !== 10) throw new Error(`Expected to claim 10, got ${ids.length}`)
        await client.query(end, [ids, ids.map(() => fence), [fence]])
      }
      return median(all)
    }
    /** Adds `count` due jobs, as if they had been enqueued long ago. */
    const addDue = (count: number) =>
      client.query(`
        insert into holdfast.job (queue, id, entry, era, priority, kind, payload)
        select queue, n, n, (select era from holdfast.server_generation), priority, kind, payload
        from (
          select nextval('holdfast.job_number') as n, one.*
          from (select ${job}) as one, generate_series(1, ${count})
          offset 0
        ) as numbered`)
    return await measure({ holdfast, filed, client, tookMs, addDue, job })
  } finally {
    await worker.close()
    await client.end()
    await holdfast.close()
    await database.close()
  }
}

const claim = `
select fence, array(select (job ->> 0)::bigint from json_array_elements(('[' || jobs || ']')::json) as job) as ids
from holdfast.job_claim($1, $2, $3::bigint[], '{filed}', 10, false, true)`

const end = 'select holdfast.job_done($1::bigint[], $2::bigint[], null, $3::bigint[])'

async function session(client: pg.Client) {
  for (;;) {
    const { rows } = await client.query('select session from holdfast.worker')
    // No job may end while the partitions are being created.
    const { rows: days } = await client.query("select from pg_class where relname ~ '^job_stopped_[0-9]{8}$'")
    if (rows.length > 0 && days.length === 4) return rows[0].session
    await sleep(20)
  }
}

export function showBacklog(claim: Awaited<ReturnType<typeof backlog>>) {
  return [
    ['claim of 10 jobs from an otherwise empty queue, ms', claim.emptyMs, ''],
    [`claim of 10 jobs with ${claim.jobs.toLocaleString('en')} other jobs, half of them delayed, ms`, claim.fullMs, ''],
    ['ratio', claim.times, '≤ 2'],
  ]
}

function round(value: number) {
  return Number(value.toPrecision(3))
}
