// Checks for steps: what a job has done once, it does not do again.
import type { Fault, History } from '../history.ts'
import { cursorEnd, txSteps } from '../work/steps.ts'
import type { Query, Verdict } from './index.ts'

/** Checks that the steps with `tx` of each ended job have exactly one effect, and each value of a cursor too. */
export async function oneEffectPerStep(query: Query): Promise<Verdict> {
  const expected = [
    ...txSteps.map((name) => ['tx step', name]),
    ...Array.from({ length: cursorEnd }, (_, n) => ['cursor', `${n}`]),
  ]
  const [{ count }] = await query("select count(*)::int from holdfast.job_step where kind = 'step'")
  const wrong = await query(
    `select job.id, wanted.what, wanted.by, count(effect.id)::int
     from holdfast.job_history as job
     cross join json_to_recordset($1) as wanted (what text, by text)
     left join effect on effect.id = job.id::text and effect.what = wanted.what and effect.by = wanted.by
     where job.kind = 'stepped' and job.state = 'done'
     group by job.id, wanted.what, wanted.by
     having count(effect.id) <> 1`,
    [JSON.stringify(expected.map(([what, by]) => ({ what, by })))],
  )
  const events = await query(
    `select id, result ->> 'early' as early, result ->> 'late' as late, data ->> 'by' as sent
     from holdfast.job_history as job
     left join holdfast.job_event on job = id and event = 'late' and step is not null
     where kind = 'stepped' and state = 'done'
       and (result ->> 'early' is distinct from id::text or result -> 'late' ->> 'by' is distinct from data ->> 'by')`,
  )
  return {
    count,
    violations: [
      ...wrong.map(({ id, what, by, count }) => ({ text: `${what} "${by}" of job ${id} has ${count} effects` })),
      ...events.map(({ id, early, late, sent }) => ({
        text: `job ${id} received the events ${early} and ${late}, but ${id} and ${sent} were sent`,
      })),
    ],
  }
}

/** Checks that no acknowledged event is missing. */
export async function noEventLost(query: Query, { sentEvent }: History): Promise<Verdict> {
  const known = new Set(
    (await query("select job from holdfast.job_event where event = 'late'")).map(({ job }) => Number(job)),
  )
  const lost = sentEvent.filter(({ id }) => !known.has(id))
  return {
    count: sentEvent.length,
    violations: lost.map(({ id }) => ({ text: `an event was sent to job ${id} and is lost` })),
  }
}

/** Faults after which a process may still own its jobs, so that they explain no second call. */
const harmless = new Set(['move a clock', 'build an index', 'migrate', 'forget a snapshot'])

/**
 * Checks that the function of a step outside `tx` is not called again after `job.step` has returned, and that only a
 * fault of the process, or of the server, has made a second call necessary.
 */
export function noStepRepeated({ ranStep, endedStep, faults }: History, expiryMs: number): Verdict {
  const violations: Verdict['violations'] = []
  const ended = new Map(endedStep.map((one) => [`${one.id} ${one.name}`, one]))
  const intervals = faults.flatMap((fault) => intervalOf(fault, expiryMs))
  const last = new Map<string, (typeof ranStep)[number]>()
  for (const run of ranStep.toSorted((a, b) => (a.at < b.at ? -1 : 1))) {
    const key = `${run.id} ${run.name}`
    const of = `step ${run.name} of job ${run.id}`
    const end = ended.get(key)
    if (end && end.at < run.at)
      violations.push({ text: `${of} ran again with fence ${run.fence}, after it had ended with fence ${end.fence}` })
    const before = last.get(key)
    last.set(key, run)
    if (!before) continue
    const isExplained = intervals.some(
      ({ pid, from, to }) => (pid === undefined || pid === before.pid) && from < run.at && to > before.at,
    )
    if (!isExplained)
      violations.push({
        text: `${of} ran again in process ${run.pid}, although no fault had hit process ${before.pid}`,
      })
  }
  return { count: ranStep.length, violations }
}

/** Time during which a fault can separate the call of a function from its record. Undefined as `pid` means every process. */
function intervalOf(
  { at, text, ends }: Fault,
  expiryMs: number,
): { pid: number | undefined; from: bigint; to: bigint }[] {
  if (ends !== undefined) return []
  const { fault, pid, forMs = 0, ms = 0 } = JSON.parse(text)
  if (harmless.has(fault)) return []
  return [{ pid, from: at, to: at + BigInt(Math.round(1e6 * (forMs + ms + 3 * expiryMs))) }]
}
