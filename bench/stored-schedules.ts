// node --import ./scripts/typescript.js bench/stored-schedules.ts [--count 100000] [--seconds 180] [--burst]
//
// Measures schedules from data: each schedule ticks once a minute, spread over the minute or (--burst) all at second 0, on three instances
// with workers that also run the jobs. Prints how late the ticks are, the statements per second, and doubled or lost ticks.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { defineJob, Holdfast } from 'holdfast'
import { benchDatabase, circumstances, query } from './server.ts'

const program = fileURLToPath(new URL('./schedules/stored-member.ts', import.meta.url))
const job = defineJob<{ at: number }>('tick')

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '100000' },
    seconds: { type: 'string', default: '180' },
    burst: { type: 'boolean', default: false },
  },
})
const [count, seconds] = [Number(values.count), Number(values.seconds)]

const database = await benchDatabase({ settings: { track_functions: 'pl', max_wal_size: '4GB' } })
const { url } = database
try {
  const operator = await Holdfast.open({ url })
  const members = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const child = fork(program, [url])
      await once(child, 'message')
      return child
    }),
  )
  const storedAt = performance.now()
  for (let from = 0; from < count; from += 1_000) {
    const some = Array.from({ length: Math.min(1_000, count - from) }, (_, at) => from + at)
    await Promise.all(
      some.map((at) => {
        const cron = values.burst ? '0 * * * * *' : `${at % 60} * * * * *`
        return operator.schedules.upsert(`tenant:${at}`, { cron, job, input: { at } })
      }),
    )
  }
  const storedMs = performance.now() - storedAt
  console.error(`stored after ${Math.round(storedMs)} ms`)
  const plannedAt = performance.now()
  for (;;) {
    const [{ left }] = await query(
      url,
      'select count(*)::int as left from holdfast.schedule where changed_at is not null',
    )
    if (left === 0) break
    await sleep(500)
  }
  const plannedMs = performance.now() - plannedAt
  console.error(`planned after ${Math.round(plannedMs)} ms`)
  // Ticks that were due while the first ticks were computed are not measured.
  await sleep(10_000)
  const [{ since }] = await query(url, 'select clock_timestamp() as since')
  const before = await counters()
  await sleep(seconds * 1_000)
  const after = await counters()
  const [{ until }] = await query(url, "select clock_timestamp() - interval '10 seconds' as until")
  for (const child of members) child.kill('SIGTERM')
  await Promise.all(members.map((child) => once(child, 'exit')))
  const [late] = await query(
    url,
    `select
       count(*)::int as ticks,
       round(1000 * percentile_cont(0.5) within group (order by extract(epoch from started_at - at)))::int as p50_ms,
       round(1000 * percentile_cont(0.99) within group (order by extract(epoch from started_at - at)))::int as p99_ms,
       round(1000 * max(extract(epoch from started_at - at)))::int as max_ms
     from holdfast.tick
     where at > $1 and at <= $2`,
    [since, until],
  )
  const [exact] = await query(
    url,
    `select
       (select count(*)::int from (select from holdfast.job group by meta ->> 'schedule', meta ->> 'tick' having count(distinct id) > 1) as j) as doubled,
       (
         select sum(extract(epoch from s.next_at - t.first) / 60 - t.ticks - coalesce(g.ticks, 0))::int
         from holdfast.schedule s
         join (select schedule, min(at) as first, count(*) as ticks from holdfast.tick group by schedule) as t on t.schedule = s.key
         left join (select schedule, sum(ticks) as ticks from holdfast.gap group by schedule) as g on g.schedule = s.key
       ) as lost,
       (select coalesce(sum(ticks), 0)::int from holdfast.gap) as gaps,
       (select count(*)::int from holdfast.job_history) as jobs_done`,
  )
  const perSecond = (what: keyof typeof after) => Number(((after[what] - before[what]) / seconds).toFixed(1))
  console.log(
    JSON.stringify(
      {
        ...(await circumstances(url)),
        schedules: count,
        spread: values.burst ? 'all at second 0' : 'over the minute',
        seconds,
        storedMs: Math.round(storedMs),
        plannedMs: Math.round(plannedMs),
        ...late,
        ...exact,
        tickStatementsPerSecond: perSecond('calls'),
        msPerTickStatement: Number(((after.ms - before.ms) / (after.calls - before.calls)).toFixed(1)),
        transactionsPerSecond: perSecond('transactions'),
      },
      null,
      2,
    ),
  )
  await operator.close()
} finally {
  await database.close()
}

async function counters() {
  const [row] = await query(
    url,
    `select
       (select coalesce(sum(calls), 0)::float8 from pg_stat_user_functions where funcname = 'schedule_tick_stored') as calls,
       (select coalesce(sum(total_time), 0)::float8 from pg_stat_user_functions where funcname = 'schedule_tick_stored') as ms,
       (select xact_commit::float8 from pg_stat_database where datname = current_database()) as transactions`,
  )
  return row as { calls: number; ms: number; transactions: number }
}
