import { expect, test } from 'vitest'
import { sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { add, untilMember } from './fixture.js'

test('schedule_sweep deletes old ticks and gaps, and keeps the latest ones and those that run', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  for (const name of ['old', 'many', 'few']) add(holdfast, name, { every: '1h' })
  for (const name of ['old', 'many', 'few']) await untilMember(holdfast, name)
  const fill = (name: string, count: number, daysAgo: number) =>
    sql(
      url,
      `with made as (
         insert into holdfast.tick (schedule, at, state)
         select key, now() - make_interval(days => $3) - make_interval(secs => n), 'done'
         from holdfast.schedule, generate_series(1, $2) as n
         where name = $1
       )
       insert into holdfast.gap
       select key, now() - make_interval(days => $3) - make_interval(secs => n), now() - make_interval(days => $3) - make_interval(secs => n), 1, 'overlap'
       from holdfast.schedule, generate_series(1, $2) as n
       where name = $1`,
      [name, count, daysAgo],
    )
  await fill('old', 300, 31)
  await fill('many', 1_500, 1)
  await fill('few', 90, 300)
  await sql(
    url,
    "update holdfast.tick set state = 'running', session = 0 where at = (select min(at) from holdfast.tick where schedule = (select key from holdfast.schedule where name = 'old'))",
  )
  // One rule per day. The sweep keeps the rules that are needed to explain the remaining ticks.
  await sql(
    url,
    `insert into holdfast.schedule_rule
     select key, now() - make_interval(days => n), rule from holdfast.schedule, generate_series(1, 400) as n`,
  )
  // The sweep keeps 30 days, but at most the last 1,000 and always the last 100 rows.
  await sql(url, 'select holdfast.schedule_sweep(30, 1000, 100)')
  const count = async (table: 'tick' | 'gap' | 'schedule_rule') => {
    const rows = await sql<{ name: string; count: number }>(
      url,
      `select name, count(*)::int from holdfast.${table} join holdfast.schedule on key = schedule group by name`,
    )
    return Object.fromEntries(rows.map(({ name, count }) => [name, count]))
  }
  expect(await count('tick')).toEqual({ old: 101, many: 1_001, few: 90 })
  expect(await count('gap')).toEqual({ old: 100, many: 1_001, few: 90 })
  // These are the rules since 32, 2 and 301 days ago, and the rule from the start of the test.
  expect(await count('schedule_rule')).toEqual({ old: 33, many: 3, few: 302 })
  await sql(url, 'delete from holdfast.tick; delete from holdfast.gap; select holdfast.schedule_sweep(30, 1000, 100)')
  expect(await count('schedule_rule')).toEqual({ old: 1, many: 1, few: 1 })
})
