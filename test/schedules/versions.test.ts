import { expect, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { sql, stays, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open, openFleet } from '../setup/instances.js'
import { add, gapsOf, runsOf, unproven, untilMember, untilRuns } from './fixture.js'

const ruleOf = async (holdfast: Holdfast, name: string) => (await holdfast.schedules.find(name))!.rule.everyMs

test('a new rule applies immediately, and an old instance also uses it', async () => {
  const url = await databaseUrl()
  const old = await open({ url })
  const ran: string[] = []
  add(old, 'deployed', { every: '1h' }, () => ran.push('old'))
  await untilMember(old, 'deployed')
  const young = await open({ url })
  add(young, 'deployed', { every: '1s' }, () => ran.push('young'))
  await until('both have run a tick', () => ran.includes('old') && ran.includes('young'))
  expect(await ruleOf(old, 'deployed')).toBe(1_000)
})

test('an earlier rule is ignored while an instance declares the current rule, and applies after that instance closes', async () => {
  const url = await databaseUrl()
  const first = await open({ url })
  add(first, 'rolled back', { every: '1h' })
  await untilMember(first, 'rolled back')
  await first.close()
  const second = await open({ url })
  add(second, 'rolled back', { every: '2h' })
  await untilMember(second, 'rolled back')
  await until('the rule of the second version applies', async () => (await ruleOf(second, 'rolled back')) === 7_200_000)

  const third = await open({ url })
  add(third, 'rolled back', { every: '1h' })
  await untilMember(third, 'rolled back')
  await stays(
    'the current rule applies',
    async () => (await ruleOf(third, 'rolled back')) === 7_200_000,
    // Longer than the interval between two checks of the rules.
    6_500,
  )
  await second.close()
  await until('the earlier rule applies', async () => (await ruleOf(third, 'rolled back')) === 3_600_000)
  const rules = await sql<{ rule: string }>(url, 'select rule from holdfast.schedule_rule order by since')
  expect(rules.map(({ rule }) => JSON.parse(rule).every)).toEqual([3_600_000, 7_200_000, 3_600_000])
  const [row] = await sql<{ superseded_rules: string[] }>(url, 'select superseded_rules from holdfast.schedule')
  expect(row!.superseded_rules).toEqual(['{"every":7200000}'])
})

test('a change of the rule settles the due ticks with the previous rule', async () => {
  const url = await databaseUrl()
  const first = await open({ url })
  add(first, 'settled', { every: '1s' })
  await untilRuns(first, 'settled', ['done'])
  await first.close()
  // Ticks become due while no instance is running.
  const [row] = await sql<{ next_at: Date }>(url, 'select next_at from holdfast.schedule')
  await until('three ticks are due', async () => {
    const [{ due }] = (await sql<{ due: boolean }>(
      url,
      "select next_at < now() - interval '2.2 s' as due from holdfast.schedule",
    )) as [{ due: boolean }]
    return due
  })
  const second = await open({ url })
  add(second, 'settled', { every: '2s', missed: 'latest' })
  await until('the rule of the second version applies', async () => (await ruleOf(second, 'settled')) === 2_000)
  const [changed] = await sql<{ since: Date }>(url, 'select max(since) as since from holdfast.schedule_rule')
  const [gap] = await gapsOf(second, 'settled')
  expect(gap).toMatchObject({ first: row!.next_at })
  const before = await sql(
    url,
    `select holdfast.schedule_unaccounted(key, array(
       select t from generate_series($1::timestamptz, $2::timestamptz, '1 second') as t
     ))
     from holdfast.schedule`,
    [row!.next_at, changed!.since],
  )
  expect(before).toEqual([])
  await untilRuns(second, 'settled', ['done'], 3)
  const after = (await runsOf(second, 'settled')).filter(({ tick }) => tick > changed!.since)
  expect(after.every(({ tick }) => tick.getTime() % 2_000 === 0)).toBe(true)
})

test('a renamed schedule ticks once per tick on old and new instances', async () => {
  const url = await databaseUrl()
  const old = await open({ url })
  const young = await open({ url })
  const ran: [string, number][] = []
  add(old, 'before', { every: '1s' }, ({ tick, name }) => ran.push([name, tick.getTime()]))
  await untilRuns(old, 'before', ['done'])
  add(young, 'after', { every: '1s', was: 'before' }, ({ tick, name }) => ran.push([name, tick.getTime()]))
  await until(
    'both instances have run ticks',
    () => ran.filter(([name]) => name === 'after').length > 1 && ran.length > 3,
    20_000,
  )
  expect(new Set(ran.map(([, tick]) => tick)).size).toBe(ran.length)
  const runsBefore = (await runsOf(old, 'before')).map(({ tick }) => tick)
  expect((await runsOf(young, 'after')).slice(0, runsBefore.length).map(({ tick }) => tick)).toEqual(runsBefore)
  expect((await young.schedules.list()).map(({ name }) => name)).toEqual(['after'])
  expect(await unproven(url, 'after', 1_000)).toEqual([])
  // An old instance that starts later joins the renamed schedule.
  const late = await open({ url })
  add(late, 'before', { every: '1s' })
  await untilMember(late, 'after')
})

test('an old instance that starts after the rename joins the renamed schedule', async () => {
  const url = await databaseUrl()
  const young = await open({ url })
  const old = await open({ url })
  add(young, 'after', { every: '1h', was: 'before' })
  await untilMember(young, 'after')
  add(old, 'before', { every: '1h' })
  await untilMember(old, 'after')
  expect((await young.schedules.list()).map(({ name, members }) => [name, members.length])).toEqual([['after', 2]])
})

test('the old name stops ticking after a rename if both names had ticks', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const before = add(holdfast, 'before', { every: '1s' })
  const after = add(holdfast, 'after', { every: '1s' })
  await untilRuns(holdfast, 'before', ['done'])
  await untilRuns(holdfast, 'after', ['done'])
  await before.close()
  await after.close()
  const ran: string[] = []
  add(holdfast, 'after', { every: '1s', was: 'before' }, ({ name }) => ran.push(name))
  await until('the new name has run', () => ran.length > 0)
  const rows = await sql(url, 'select name, next_at is null as is_over from holdfast.schedule order by name')
  expect(rows).toEqual([
    { name: 'after', is_over: false },
    { name: 'before', is_over: true },
  ])
  expect((await holdfast.schedules.find('before'))!.name).toBe('after')
})

test('the latest declaration determines all options except the rule', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const first = add(holdfast, 'options', { every: '1h' })
  await untilMember(holdfast, 'options')
  await first.close()
  add(holdfast, 'options', { every: '1h', overlap: 'queue', missed: { all: 7 }, crashed: 'record' })
  await untilMember(holdfast, 'options')
  expect(await sql(url, 'select overlap, missed, catch_up, reruns from holdfast.schedule')).toEqual([
    { overlap: 'queue', missed: 'all', catch_up: 7, reruns: false },
  ])
})

test('an old instance that loses its session does not restore its options', async () => {
  const url = await databaseUrl()
  const [old, young] = (await openFleet(url, 2)) as [Holdfast, Holdfast]
  add(old, 'options', { every: '1h', crashed: 'rerun' })
  await untilMember(old, 'options')
  add(young, 'options', { every: '1h', crashed: 'record' })
  await untilMember(young, 'options')
  const session = async () => {
    const member = 'select session from holdfast.schedule_member where instance = $1'
    return (await sql<{ session: number }>(url, member, [old.id]))[0]?.session
  }
  const before = await session()
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, old)])
  await until('the old instance has declared the schedule again', async () => {
    const now = await session()
    return now !== undefined && now !== before
  })
  expect(await sql(url, 'select reruns from holdfast.schedule')).toEqual([{ reruns: false }])
})

test('a stored schedule that code replaces under a new name has the new name', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  await holdfast.schedules.upsert('before', { every: '1h', job: defineJob<null>('kind'), input: null })
  add(holdfast, 'after', { every: '1h', was: 'before' })
  await untilMember(holdfast, 'after')
  expect((await holdfast.schedules.find('before'))!.name).toBe('after')
})

test('an instance does not run a schedule with the rule of a newer version that it cannot read', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: Date[] = []
  add(holdfast, 'newer', { every: '1s' }, ({ tick }) => ran.push(tick))
  add(holdfast, 'known', { every: '1s' })
  await untilMember(holdfast, 'newer')
  await sql(url, `update holdfast.schedule set rule = '{"lunar":1}' where name = 'newer'`)
  await sql(
    url,
    "update holdfast.schedule_member set rule = '{\"lunar\":1}' where schedule = (select key from holdfast.schedule where name = 'newer')",
  )
  await untilRuns(holdfast, 'known', ['done'], 2)
  const before = ran.length
  await untilRuns(holdfast, 'known', ['done'], 4)
  expect(ran.length).toBe(before)
})

test('an unreadable rule is not replaced by a new rule, and other schedules keep ticking', async () => {
  const url = await databaseUrl()
  const first = await open({ url })
  add(first, 'stuck', { every: '1h' })
  await untilMember(first, 'stuck')
  await first.close()
  await sql(url, `update holdfast.schedule set rule = '{"lunar":1}' where name = 'stuck'`)
  const second = await open({ url })
  add(second, 'stuck', { every: '2h' })
  add(second, 'free', { every: '1s' })
  await untilMember(second, 'stuck')
  await untilRuns(second, 'free', ['done'], 2)
  const [row] = await sql<{ rule: string }>(url, "select rule from holdfast.schedule where name = 'stuck'")
  expect(row!.rule).toBe('{"lunar":1}')
})

test('an instance declares its schedules again after its rows were deleted', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  add(holdfast, 'forgotten', { every: '1s' })
  await untilMember(holdfast, 'forgotten')
  await sql(url, 'delete from holdfast.schedule_member')
  await untilMember(holdfast, 'forgotten')
})
