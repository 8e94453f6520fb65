// Checks for jobs. Every committed job has ended once and has had its effect once. No job from a rolled-back
// transaction exists.
import type { History } from '../history.ts'
import type { Query, Verdict } from './index.ts'

/**
 * Checks that every job whose commit was acknowledged is done or still exists, and that no job from a rolled-back
 * transaction has run.
 */
export async function noJobLost(query: Query, { enqueued, rolledBack }: History): Promise<Verdict> {
  const alive = new Set(
    (await query('select id from holdfast.job_live union all select id from holdfast.waiting')).map(({ id }) =>
      Number(id),
    ),
  )
  const ends = new Map(
    (await query('select id, count(*)::int, min(state) as state from holdfast.job_history group by id')).map((row) => [
      Number(row.id),
      row,
    ]),
  )
  const violations: Verdict['violations'] = []
  let count = 0
  for (const { tag, ids } of enqueued) {
    for (const id of ids) {
      count++
      const end = ends.get(id)
      if (alive.has(id)) continue
      if (!end) violations.push({ text: `job ${id} of batch ${tag} was committed and is lost` })
      else if (end.state !== 'done') violations.push({ text: `job ${id} of batch ${tag} has ended as ${end.state}` })
    }
  }
  const tags = new Set(
    (await query("select distinct payload->>'tag' as tag from holdfast.job_history")).map(({ tag }) => tag),
  )
  for (const { tag } of rolledBack) {
    count++
    if (tags.has(tag)) violations.push({ text: `jobs of batch ${tag} ran although they were rolled back` })
  }
  return { count, violations }
}

/** Checks that no claim has passed a job that no worker ran, and that each lane and budget counts its jobs correctly. */
export async function noJobPassed(query: Query): Promise<Verdict> {
  const [{ count }] = await query('select count(*)::int from holdfast.job')
  const passed = await query('select id, entry from holdfast.job_lost()')
  const miscounted = await query('select name, active, counted from holdfast.lane_faults()')
  return {
    count,
    violations: [
      ...passed.map(({ id, entry }) => ({
        text: `claims have passed job ${id} at entry ${entry}, which no worker ran`,
      })),
      ...miscounted.map(({ name, active, counted }) => ({
        text: `the lane or budget ${name} counts ${active} active jobs, but it has ${counted}`,
      })),
    ],
  }
}

/** Checks that no more jobs of the kind `at rate` were admitted than 50 per second and a burst of 10. */
export async function rateKept(query: Query): Promise<Verdict> {
  const rows = await query(`
    select extract(epoch from min(entered_at))::float8 as at from holdfast.job where kind = 'at rate' group by id order by 1`)
  const times = rows.map(({ at }) => at as number)
  const violations: Verdict['violations'] = []
  // A job enters its table some milliseconds after its admission. 100 jobs need 1.8 s.
  for (let at = 99; at < times.length; at++) {
    const seconds = times[at]! - times[at - 99]!
    if (seconds < 1.3)
      violations.push({ text: `the rate of 50 jobs per second admitted 100 jobs in ${seconds.toFixed(2)} s` })
  }
  return { count: times.length, violations: violations.slice(0, 3) }
}

/** Checks that each end has one record, each done job has one effect, other jobs have none, and only the last attempt has ended its job. */
export async function jobsEndOnce(query: Query): Promise<Verdict> {
  const [{ count }] = await query('select count(*)::int from holdfast.job_history')
  const twice = await query('select id, count(*)::int from holdfast.job_history group by id having count(*) > 1')
  const effects = await query(`
    select coalesce(job.id, effect.id) as id, count(effect.id)::int as count, count(job.id) > 0 as is_done
    from (select id::text as id from holdfast.job_history where kind = 'write' and state = 'done') as job
    full join (select id from effect where what = 'job') as effect on effect.id = job.id
    group by 1
    having count(effect.id) <> 1 or count(job.id) = 0`)
  const steps = await query(`
    select id, by, count(*)::int from effect where what = 'step' group by id, by having count(*) > 1`)
  const stale = await query(`
    select id, result::text as recorded, max(started.fence)::text as last
    from holdfast.job_history
    join started using (id)
    where kind = 'log start'
    group by id, result::text
    having max(started.fence)::text <> result::text`)
  return {
    count,
    violations: [
      ...twice.map((row) => ({ text: `job ${row.id} has ended ${row.count} times` })),
      ...effects.map((row) => ({
        text: row.is_done
          ? `job ${row.id} is done and has ${row.count} effects`
          : `job ${row.id} has an effect but is not done`,
      })),
      ...steps.map((row) => ({ text: `step ${row.by} of workflow ${row.id} has ${row.count} effects` })),
      ...stale.map((row) => ({
        text: `the attempt with fence ${row.recorded} ended job ${row.id} after the attempt with fence ${row.last} had started`,
      })),
    ],
  }
}
