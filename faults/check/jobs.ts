// Jobs: what was committed has ended, once, with its effect, once; what was rolled back never was.
import type { History } from '../history.ts'
import type { Query, Verdict } from './index.ts'

/** What somebody was told is committed is done, or still to be done; what was rolled back is nowhere. */
export async function noJobLost(query: Query, { enqueued, undone }: History): Promise<Verdict> {
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
  const against: Verdict['against'] = []
  let count = 0
  for (const { tag, ids } of enqueued) {
    for (const id of ids) {
      count++
      const end = ends.get(id)
      if (alive.has(id)) continue
      if (!end) against.push({ says: `job ${id} of ${tag} was committed and is lost` })
      else if (end.state !== 'done') against.push({ says: `job ${id} of ${tag} has ended ${end.state}` })
    }
  }
  const tags = new Set(
    (await query("select distinct payload->>'tag' as tag from holdfast.job_history")).map(({ tag }) => tag),
  )
  for (const { tag } of undone) {
    count++
    if (tags.has(tag)) against.push({ says: `jobs of ${tag} ran though they were rolled back` })
  }
  return { count, against }
}

/** No claim has passed a job that no worker ran, and each lane counts its jobs correctly. */
export async function noJobPassed(query: Query): Promise<Verdict> {
  const [{ count }] = await query('select count(*)::int from holdfast.job')
  const passed = await query('select id, entry from holdfast.job_lost()')
  const miscounted = await query('select name, active, counted from holdfast.lane_faults()')
  return {
    count,
    against: [
      ...passed.map(({ id, entry }) => ({
        says: `claims have passed job ${id} at entry ${entry}, which no worker ran`,
      })),
      ...miscounted.map(({ name, active, counted }) => ({
        says: `lane ${name} counts ${active} jobs and has ${counted}`,
      })),
    ],
  }
}

/** One record of each end, one effect for each that is done and for nothing else, and no end of an attempt after which another had begun. */
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
    select id, result::text as recorded, max(begun.fence)::text as last
    from holdfast.job_history
    join begun using (id)
    where kind = 'tell'
    group by id, result::text
    having max(begun.fence)::text <> result::text`)
  return {
    count,
    against: [
      ...twice.map((row) => ({ says: `job ${row.id} has ended ${row.count} times` })),
      ...effects.map((row) => ({
        says: row.is_done
          ? `job ${row.id} is done and had ${row.count} effects`
          : `job ${row.id} had an effect and is not done`,
      })),
      ...steps.map((row) => ({ says: `step ${row.by} of workflow ${row.id} had ${row.count} effects` })),
      ...stale.map((row) => ({
        says: `job ${row.id} was ended by the attempt with fence ${row.recorded} after the one with ${row.last} had begun`,
      })),
    ],
  }
}
