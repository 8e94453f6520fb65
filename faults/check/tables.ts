// Checks the tables: guarded writes, deliveries and ticks.
import { ruleFromText } from '../../dist/cron/index.js'
import type { History } from '../history.ts'
import type { Query, Verdict } from './index.ts'

/**
 * Checks that each name's writes are in the order of their fences. A guard waits for the transaction that previously
 * guarded the name.
 */
export async function fencesGrow(query: Query): Promise<Verdict> {
  const [{ count }] = await query('select count(*)::int from ledger')
  const wrong = await query(`
    select *
    from (
      select
        id, what, fence, holder,
        lag(fence) over (partition by what order by id) as fence_before,
        lag(holder) over (partition by what order by id) as holder_before
      from ledger
    ) as written
    where fence < fence_before or fence = fence_before and holder <> holder_before`)
  const violations = wrong.map((row) => ({
    text: `process ${row.holder} wrote for ${row.what} with fence ${row.fence} after process ${row.holder_before} had written with fence ${row.fence_before}`,
  }))
  return { count, violations }
}

/**
 * Checks that each delivery has one effect, that the delivery's record names the run that made the effect, and that
 * each caller received this run's result. A caller receives the result only if the run had the same body.
 */
export async function oneEffect(query: Query, { delivered }: History): Promise<Verdict> {
  const effects = await query(`
    select effect.id, array_agg(effect.by) as by, min(coalesce(value->>'by', convert_from(body, 'UTF8')::json->>'by')) as recorded, bool_and(state = 'done') as done
    from effect
    left join holdfast.delivery on delivery.key = effect.id
    where what = 'delivery'
    group by effect.id`)
  const byKey = new Map(effects.map((row) => [row.id, row.by[0]]))
  const violations: Verdict['violations'] = []
  for (const { id, by, recorded, done } of effects) {
    if (by.length > 1)
      violations.push({ text: `delivery ${id} has ${by.length} effects, made by the runs ${by.join(' and ')}` })
    else if (!done || by[0] !== recorded)
      violations.push({ text: `run ${by[0]} made the effect of delivery ${id}, but the recorded run is ${recorded}` })
  }
  for (const { key, by, body } of delivered) {
    if (!by.endsWith(`:${body}`))
      violations.push({
        text: `delivery ${key} with the body "${body}" received the result of run ${by}, which had another body`,
      })
    if (byKey.get(key) !== by)
      violations.push({
        text: `a caller of delivery ${key} received the result of run ${by}, but run ${byKey.get(key)} made the effect`,
      })
  }
  return { count: effects.length + delivered.length, violations }
}

/** Number of ticks that the sweep keeps of a stored schedule. A schedule with as many rows may have lost older ticks to the sweep. */
const keptTicks = 200

/** Checks that each tick of a rule in force has either one run or one gap with a reason, and that each effect belongs to a run that is done. */
export async function oneRun(query: Query): Promise<Verdict> {
  const violations: Verdict['violations'] = []
  let count = 0
  const schedules = await query(`
    select key, name, next_at, now(), (
      select case when schedule.job_head is not null and count(*) >= ${keptTicks} then min(at) filter (where not extra) end
      from holdfast.tick
      where tick.schedule = key
    ) as oldest
    from holdfast.schedule`)
  for (const { key, name, next_at, now, oldest } of schedules) {
    const rules = await query('select since, rule from holdfast.schedule_rule where schedule = $1 order by since', [
      key,
    ])
    const ticks = rules.flatMap(({ since, rule }, at) => {
      // The last rule ends before its first tick that has no run and no gap yet.
      const until = rules[at + 1]?.since ?? (next_at === null ? now : new Date(next_at.getTime() - 1))
      const from = oldest !== null && since < oldest ? new Date(oldest.getTime() - 1) : since
      return from < until ? ruleFromText(rule).between(from, until, 1_000_000) : []
    })
    count += ticks.length
    const unproven = await query('select holdfast.schedule_unaccounted($1, $2) as at', [key, ticks])
    for (const { at } of unproven)
      violations.push({
        text: `tick ${at.toISOString()} of schedule ${name} has neither a run nor a reason, or it has both`,
      })
    const [{ settled }] = await query(
      `select (select count(*) from holdfast.tick where schedule = $1 and not extra)::int
         + (select coalesce(sum(ticks), 0) from holdfast.gap where schedule = $1 and first_at >= coalesce($2::timestamptz, '-infinity'))::int as settled`,
      [key, oldest],
    )
    if (settled !== ticks.length)
      violations.push({ text: `schedule ${name} has ${ticks.length} ticks, but ${settled} runs and reasons` })
  }
  const wrong = await query(`
    select effect.what, effect.id, count(*)::int, bool_or(tick.state = 'done') as is_done
    from effect
    left join holdfast.schedule on 'schedule ' || name = effect.what
    left join holdfast.tick on tick.schedule = key and at = effect.id::timestamptz and tick.fence = effect.fence
    where effect.what like 'schedule %'
    group by effect.what, effect.id
    having count(*) > 1 or not coalesce(bool_or(tick.state = 'done'), false)`)
  for (const { what, id, count, is_done } of wrong) {
    violations.push({
      text: is_done
        ? `tick ${id} of ${what} has ${count} effects`
        : `tick ${id} of ${what} has an effect but is not done`,
    })
  }
  return { count, violations }
}

/** Checks that each tick of a stored schedule has enqueued one job with one effect, and that no removed schedule has ticks. */
export async function oneJobPerTick(query: Query): Promise<Verdict> {
  const [{ count }] = await query("select count(*)::int from effect where what = 'stored'")
  const wrong = await query(`
    select 'tick ' || (meta ->> 'tick') || ' of ' || (meta ->> 'schedule') || ' has enqueued ' || count(distinct id) || ' jobs' as text
    from holdfast.job
    where kind = 'stored tick'
    group by meta ->> 'tick', meta ->> 'schedule'
    having count(distinct id) > 1
    union all
    select 'tick ' || id || ' has ' || count(*) || ' effects' from effect where what = 'stored' group by id having count(*) > 1
    union all
    select 'tick ' || at || ' belongs to a removed schedule'
    from holdfast.tick
    where job is not null
      and not exists (select from holdfast.schedule where key = tick.schedule)
    union all
    select 'tick ' || at || ' of ' || name || ' has a job without an effect'
    from holdfast.tick
    join holdfast.schedule on key = tick.schedule
    where job_head is not null
      and not exists (
        select
        from effect
        where what = 'stored'
          and id = name || ' ' || to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      )`)
  return { count, violations: wrong.map(({ text }) => ({ text })) }
}
