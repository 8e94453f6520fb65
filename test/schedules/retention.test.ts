import { expect, test } from 'vitest'
import { sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { add, untilMember } from './fixture.js'

test('old ticks and gaps go, the last ones stay, and what runs stays', async () => {
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
  // A rule of each day, of which those are needed that named what stays.
  await sql(
    url,
    `insert into holdfast.schedule_rule
     select key, now() - make_interval(days => n), rule from holdfast.schedule, generate_series(1, 400) as n`,
  )
  // Thirty days, but no more than the last thousand, and always the last hundred.
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
  // From 32 days ago, 2 and 301, and that of the beginning of the test.
  expect(await count('schedule_rule')).toEqual({ old: 33, many: 3, few: 302 })
  await sql(url, 'delete from holdfast.tick; delete from holdfast.gap; select holdfast.schedule_sweep(30, 1000, 100)')
  expect(await count('schedule_rule')).toEqual({ old: 1, many: 1, few: 1 })
})
