// Checks for deadlines, updates and cancellations by a search, see work/changes.ts.
import type { History } from '../history.ts'
import type { Query, Verdict } from './index.ts'

/** Time between the check of a deadline and the time that the claim records. */
const toleranceMs = 200

/**
 * Checks that each done job has one effect and other jobs have none, that a job runs with the input of its last acknowledged update, and that no
 * job is claimed after its deadline.
 */
export async function changesKept(query: Query, { changed }: History): Promise<Verdict> {
  const ends = await query(`
    select job.id::text as id, state, array_remove(array_agg(effect.by::integer), null) as versions
    from holdfast.job_history as job
    left join effect on effect.what = 'changed' and effect.id = job.id::text
    where kind = 'changed'
    group by job.id, state`)
  const byId = new Map(ends.map((row) => [Number(row.id), row]))
  const violations: Verdict['violations'] = []
  for (const { id, state, versions } of ends) {
    if (versions.length !== (state === 'done' ? 1 : 0))
      violations.push({ text: `job ${id} has ended as ${state} and has ${versions.length} effects` })
  }
  for (const { id, updates } of changed) {
    const end = byId.get(id)
    if (!end) violations.push({ text: `job ${id}, which was updated, is lost` })
    if (end?.state !== 'done') continue
    const lastKept = updates.findLast(({ answer }) => answer === true)?.version ?? 1
    const refused = updates.filter(({ answer }) => answer === false).map(({ version }) => version)
    const [version] = end.versions
    if (version < lastKept || refused.includes(version)) {
      const answers = updates.map((one) => `${one.version} (${one.answer})`).join(', ')
      violations.push({ text: `job ${id} ran with version ${version} after the updates ${answers || 'none'}` })
    }
  }
  const late = await query(
    `select begun.id, begun.claimed_at - (entry.links ->> 'startBy')::timestamptz as late
     from (select id, min(claimed_at) as claimed_at from begun group by id) as begun
     cross join lateral (
       select links from holdfast.job where job.id = begun.id and entered_at <= begun.claimed_at order by entry desc limit 1
     ) as entry
     where begun.claimed_at > (entry.links ->> 'startBy')::timestamptz + make_interval(secs => $1::float8 / 1000)`,
    [toleranceMs],
  )
  for (const { id, late: by } of late)
    violations.push({ text: `job ${id} was claimed ${JSON.stringify(by)} after its deadline` })
  return { count: ends.length, violations }
}
