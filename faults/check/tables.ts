// What the tables say of writes under fences, of deliveries and of ticks.
import { ruleFromText } from '../../dist/cron/index.js'
import type { History } from '../history.ts'
import type { Query, Verdict } from './index.ts'

/** Under each name writes come in the order of their fences: whoever guards a name waits for the transaction that guarded it before. */
export async function fencesGrow(query: Query): Promise<Verdict> {
  const [{ count }] = await query('select count(*)::int from ledger')
  const wrong = await query(`
    select *
    from (
      select
        id, what, fence, pid,
        lag(fence) over (partition by what order by id) as fence_before,
        lag(pid) over (partition by what order by id) as pid_before
      from ledger
    ) as written
    where fence < fence_before or fence = fence_before and pid <> pid_before`)
  const against = wrong.map((row) => ({
    says: `under ${row.what} process ${row.pid} wrote with fence ${row.fence} after process ${row.pid_before} with fence ${row.fence_before}`,
  }))
  return { count, against }
}

/**
 * Each delivery has its effect once, by whom it is recorded, and whoever was answered has heard of that one; and was answered only
 * if that one had the same body.
 */
export async function oneEffect(query: Query, { answered }: History): Promise<Verdict> {
  const effects = await query(`
    select effect.id, array_agg(effect.by) as by, min(coalesce(value->>'by', convert_from(body, 'UTF8')::json->>'by')) as recorded, bool_and(state = 'done') as done
    from effect
    left join holdfast.delivery on delivery.key = effect.id
    where what = 'delivery'
    group by effect.id`)
  const byKey = new Map(effects.map((row) => [row.id, row.by[0]]))
  const against: Verdict['against'] = []
  for (const { id, by, recorded, done } of effects) {
    if (by.length > 1) against.push({ says: `delivery ${id} had ${by.length} effects, by ${by.join(' and ')}` })
    else if (!done || by[0] !== recorded)
      against.push({ says: `delivery ${id} had its effect by ${by[0]}, and ${recorded} is recorded` })
  }
  for (const { key, by, body } of answered) {
    if (!by.endsWith(`:${body}`))
      against.push({
        says: `delivery ${key} with the body "${body}" was swallowed: it was answered with ${by}, of another body`,
      })
    if (byKey.get(key) !== by)
      against.push({ says: `delivery ${key} was answered with ${by}, its effect is by ${byKey.get(key)}` })
  }
  return { count: effects.length + answered.length, against }
}

/** Each tick of a rule, while it was in force, is in exactly one place: a run, or a gap with its reason. Effects are those of runs that are done. */
export async function oneRun(query: Query): Promise<Verdict> {
  const against: Verdict['against'] = []
  let count = 0
  for (const { key, name, next_at, now } of await query('select key, name, next_at, now() from holdfast.schedule')) {
    const rules = await query('select since, rule from holdfast.schedule_rule where schedule = $1 order by since', [
      key,
    ])
    const ticks = rules.flatMap(({ since, rule }, at) => {
      // The last rule: until the first of its ticks that is not settled.
      const until = rules[at + 1]?.since ?? (next_at === null ? now : new Date(next_at.getTime() - 1))
      return ruleFromText(rule).between(since, until, 1_000_000)
    })
    count += ticks.length
    const unproven = await query('select holdfast.schedule_unaccounted($1, $2) as at', [key, ticks])
    for (const { at } of unproven)
      against.push({ says: `the tick ${at.toISOString()} of ${name} has neither a run nor a reason, or both` })
    const [{ places }] = await query(
      `select (select count(*) from holdfast.tick where schedule = $1 and not extra)::int
         + (select coalesce(sum(ticks), 0) from holdfast.gap where schedule = $1)::int as places`,
      [key],
    )
    if (places !== ticks.length)
      against.push({ says: `${name} has ${ticks.length} ticks and ${places} runs and reasons` })
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
    against.push({
      says: is_done
        ? `the tick ${id} of ${what} had ${count} effects`
        : `the tick ${id} of ${what} has an effect and is not done`,
    })
  }
  return { count, against }
}
