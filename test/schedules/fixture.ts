import { onTestFinished } from 'vitest'
import type { Holdfast, PastGap, PastRun, Schedule, ScheduleOptions, ScheduleRun } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'

export { gate } from '../setup/facts.js'

/** Adds a schedule, and closes it when the test has finished. */
export function add(
  holdfast: Holdfast,
  name: string,
  options: ScheduleOptions,
  work: (run: ScheduleRun) => unknown = () => {},
): Schedule {
  const schedule = holdfast.schedules.add(name, options, work)
  onTestFinished(() => schedule.close({ within: 100 }))
  return schedule
}

/** Waits until the database lists the instance as a member of the schedule. */
export async function untilMember(holdfast: Holdfast, name: string): Promise<void> {
  await until(`${holdfast.id} is a member of ${name}`, async () =>
    (await holdfast.schedules.find(name))?.members.some(({ instance }) => instance === holdfast.id),
  )
}

/** Waits until `name` has at least `count` runs in one of the states. */
export async function untilRuns(
  holdfast: Holdfast,
  name: string,
  states: PastRun['state'][],
  count = 1,
): Promise<PastRun[]> {
  return until(`${count} runs of ${name} are ${states.join(' or ')}`, async () => {
    const runs = (await runsOf(holdfast, name)).filter(({ state }) => states.includes(state))
    return runs.length >= count && runs
  })
}

/** Returns the runs of a schedule, the oldest first. */
export async function runsOf(holdfast: Holdfast, name: string): Promise<PastRun[]> {
  const all = await holdfast.schedules.runs(name, { limit: 1_000 })
  return all.filter((one): one is PastRun => one.kind === 'run').reverse()
}

/** Returns the gaps of a schedule, the oldest first. */
export async function gapsOf(holdfast: Holdfast, name: string): Promise<PastGap[]> {
  const all = await holdfast.schedules.runs(name, { limit: 1_000 })
  return all.filter((one): one is PastGap => one.kind === 'gap').reverse()
}

export const weekMs = 7 * 86_400_000

/** Returns the last tick of `every: '7d'`, by the clock of the database. The tick is almost always long ago, so it counts as missed. */
export async function lastWeek(url: string): Promise<Date> {
  const [row] = await sql<{ week: Date }>(url, "select date_bin('7 days', now(), 'epoch') as week")
  return row!.week
}

/** Makes `nextAt` the first unsettled tick, as if no instance had run since. */
export async function setBack(url: string, name: string, nextAt: Date): Promise<void> {
  await sql(url, 'update holdfast.schedule set next_at = $2, settled_at = null where name = $1', [name, nextAt])
}

/** Waits for the abort of the signal and rejects with its reason. */
export function stopped(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason))
  })
}

/** Returns the settled ticks of a rule that are not in exactly one run or gap. */
export async function unproven(url: string, name: string, everyMs: number): Promise<Date[]> {
  const rows = await sql<{ at: Date }>(
    url,
    `with s as (
       select key, next_at, (select min(since) from holdfast.schedule_rule where schedule = key) as since
       from holdfast.schedule
       where name = $1
     )
     select holdfast.schedule_unaccounted(key, array(
       select t
       from generate_series(
         date_bin(make_interval(secs => $2::int / 1000.0), since, 'epoch') + make_interval(secs => $2::int / 1000.0),
         next_at - interval '1 millisecond',
         make_interval(secs => $2::int / 1000.0)
       ) as t
     )) as at
     from s`,
    [name, everyMs],
  )
  return rows.map(({ at }) => at)
}
