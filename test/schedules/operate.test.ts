import { describe, expect, test } from 'vitest'
import {
  ClosedError,
  DatabaseError,
  type ScheduleRun,
  type Schedules,
  UnknownScheduleError,
  UsageError,
} from '../../src/index.js'
import { caught, sql, sqlSession, stays, until, within } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { add, gapsOf, gate, runsOf, unproven, untilMember, untilRuns } from './fixture.js'

test('a paused schedule does not tick on any instance, and its ticks are one gap', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 2)
  const operator = await open({ url, namespace: fleet[0]!.namespace })
  for (const holdfast of fleet) add(holdfast, 'paused', { every: '1s' })
  await untilRuns(operator, 'paused', ['done'], 2)
  await operator.schedules.pause('paused')
  const status = (await operator.schedules.find('paused'))!
  expect(status).toMatchObject({ nextAt: undefined, rule: { everyMs: 1_000 } })
  expect(Math.abs(status.pausedAt!.getTime() - Date.now())).toBeLessThan(5_000)
  const before = (await runsOf(operator, 'paused')).length
  await stays('no tick runs', async () => (await runsOf(operator, 'paused')).length === before, 2_200)
  await operator.schedules.resume('paused')
  await untilRuns(operator, 'paused', ['done'], before + 1)
  const gaps = await gapsOf(operator, 'paused')
  expect(gaps.map(({ reason }) => reason)).toEqual(['paused'])
  expect(gaps[0]!.ticks).toBeGreaterThanOrEqual(2)
  expect(await unproven(url, 'paused', 1_000)).toEqual([])
})

test('a schedule remains paused after all instances have restarted', async () => {
  const url = await databaseUrl()
  const first = await open({ url })
  add(first, 'kept', { every: '1s' })
  await untilMember(first, 'kept')
  await first.schedules.pause('kept')
  await first.close()
  const second = await open({ url })
  const ran: Date[] = []
  add(second, 'kept', { every: '1s' }, ({ tick }) => ran.push(tick))
  await untilMember(second, 'kept')
  await stays('no tick runs', () => ran.length === 0, 1_500)
})

test('schedules.run starts an extra run, also while paused, and does not change the ticks of the rule', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 2)
  const operator = await open({ url, namespace: fleet[0]!.namespace })
  const ran: ScheduleRun[] = []
  const end = gate()
  for (const holdfast of fleet) {
    add(holdfast, 'extra', { every: '1h' }, async (run) => {
      ran.push(run)
      await end.opened
    })
  }
  await untilMember(fleet[0]!, 'extra')
  const { nextAt } = (await operator.schedules.find('extra'))!
  await operator.schedules.pause('extra')
  const tick = await operator.schedules.run('extra')
  const [running] = await untilRuns(operator, 'extra', ['running'])
  expect(running).toMatchObject({ extra: true, tick })
  // Extra runs also do not overlap.
  expect(await operator.schedules.run('extra')).toBeNull()
  end.open()
  await untilRuns(operator, 'extra', ['done'])
  await operator.schedules.resume('extra')
  expect((await operator.schedules.find('extra'))!.nextAt).toEqual(nextAt)
  expect(ran).toEqual([expect.objectContaining({ extra: true, tick, attempt: 1 })])
})

test('an override replaces the rule of the code until it is removed', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const operator = await open({ url })
  add(holdfast, 'overridden', { cron: '0 3 * * *', timezone: 'Europe/London' })
  await untilMember(holdfast, 'overridden')
  await operator.schedules.override('overridden', { every: '1s' })
  expect(await operator.schedules.find('overridden')).toMatchObject({
    rule: { everyMs: 1_000 },
    override: { everyMs: 1_000 },
    codeRule: { cron: '0 3 * * *', timezone: 'Europe/London' },
  })
  await untilRuns(operator, 'overridden', ['done'], 2)
  // A new rule of the code does not apply while the override exists.
  await holdfast.close()
  const next = await open({ url })
  add(next, 'overridden', { every: '2h' })
  await until('the code has another rule', async () => {
    const { codeRule } = (await operator.schedules.find('overridden'))!
    return codeRule.everyMs === 7_200_000
  })
  expect((await operator.schedules.find('overridden'))!.rule).toEqual({ everyMs: 1_000 })
  await operator.schedules.override('overridden', null)
  const status = (await operator.schedules.find('overridden'))!
  expect(status).toMatchObject({ rule: { everyMs: 7_200_000 }, override: undefined })
  expect(status.nextAt!.getTime() % 7_200_000).toBe(0)
  const rules = await sql<{ rule: string }>(url, 'select rule from holdfast.schedule_rule order by since')
  expect(rules.map(({ rule }) => JSON.parse(rule).every)).toEqual([undefined, 1_000, 7_200_000])
})

test('a new rule does not repeat settled ticks after the database clock was set back', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  add(holdfast, 'set back', { every: '1h' })
  await untilMember(holdfast, 'set back')
  const settled = new Date(Date.now() + 86_400_000)
  await sql(
    url,
    "update holdfast.schedule set settled_at = $1::timestamptz, next_at = $1::timestamptz + interval '1 hour'",
    [settled],
  )
  await holdfast.schedules.override('set back', { every: '1s' })
  const { nextAt } = (await holdfast.schedules.find('set back'))!
  expect(nextAt!.getTime()).toBeGreaterThan(settled.getTime())
  expect(nextAt!.getTime()).toBeLessThan(settled.getTime() + 2_000)
})

test('runs, gaps and pauses have times in a database with another DateStyle', async () => {
  const url = await databaseUrl()
  await sql(url, `alter database "${new URL(url).pathname.slice(1)}" set datestyle = 'SQL, DMY'`)
  const holdfast = await open({ url })
  add(holdfast, 'other style', { every: '1s' })
  const [run] = await untilRuns(holdfast, 'other style', ['done'])
  for (const time of [run!.tick, run!.startedAt, run!.endedAt])
    expect(Math.abs(time!.getTime() - Date.now())).toBeLessThan(60_000)
  await holdfast.schedules.pause('other style')
  const { pausedAt } = (await holdfast.schedules.find('other style'))!
  expect(Math.abs(pausedAt!.getTime() - Date.now())).toBeLessThan(60_000)
  await sql(url, "update holdfast.schedule set next_at = date_trunc('second', now() - interval '10 seconds')")
  await holdfast.schedules.resume('other style')
  const [gap] = await until('a gap is recorded', async () => {
    const gaps = await gapsOf(holdfast, 'other style')
    return gaps.length > 0 && gaps
  })
  for (const time of [gap!.first, gap!.last]) expect(Math.abs(time.getTime() - Date.now())).toBeLessThan(60_000)
})

test('schedules.list returns the schedules of the namespace, ordered by name', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace: 'here' })
  const elsewhere = await open({ url, namespace: 'there' })
  add(holdfast, 'b', { every: '1h' })
  add(holdfast, 'a', { at: new Date('2999-01-01T00:00:00Z') })
  add(elsewhere, 'c', { every: '1h' })
  await untilMember(holdfast, 'a')
  await untilMember(holdfast, 'b')
  await untilMember(elsewhere, 'c')
  const all = await holdfast.schedules.list()
  expect(all.map(({ name }) => name)).toEqual(['a', 'b'])
  expect(all[0]).toEqual({
    name: 'a',
    rule: { at: new Date('2999-01-01T00:00:00Z') },
    codeRule: { at: new Date('2999-01-01T00:00:00Z') },
    override: undefined,
    pausedAt: undefined,
    nextAt: new Date('2999-01-01T00:00:00Z'),
    members: [{ instance: holdfast.id, instanceName: holdfast.name, rule: { at: new Date('2999-01-01T00:00:00Z') } }],
  })
})

test('a schedule that does not exist is not found, and changing it throws UnknownScheduleError', async () => {
  const { schedules } = await open({ url: await databaseUrl(), namespace: 'empty' })
  expect(await schedules.find('unknown')).toBeNull()
  expect(await schedules.runs('unknown')).toEqual([])
  for (const work of [
    () => schedules.pause('unknown'),
    () => schedules.resume('unknown'),
    () => schedules.run('unknown'),
    () => schedules.override('unknown', null),
  ]) {
    const error = await caught(UnknownScheduleError, work())
    expect(error.message).toBe('There is no schedule "unknown" in the namespace "empty"')
    expect(error).toMatchObject({ code: 'UNKNOWN_SCHEDULE', schedule: 'unknown' })
  }
  const wrong = await caught(UsageError, schedules.override('unknown', { every: 10 }))
  expect(wrong.message).toMatch(/^Expected every to be a duration of at least 1s/)
})

describe('a call right after add, before the schedule is in the database', () => {
  const calls: Record<string, (schedules: Schedules) => Promise<unknown>> = {
    run: async (schedules) => expect(await schedules.run('new')).toBeInstanceOf(Date),
    pause: (schedules) => schedules.pause('new'),
    resume: (schedules) => schedules.resume('new'),
    override: (schedules) => schedules.override('new', { every: '2h' }),
    find: async (schedules) => expect(await schedules.find('new')).toMatchObject({ name: 'new' }),
    list: async (schedules) => expect((await schedules.list()).map(({ name }) => name)).toEqual(['new']),
  }

  test.each(Object.entries(calls))('%s waits until the schedule is in the database', async (_, call) => {
    const holdfast = await open({ url: await databaseUrl() })
    add(holdfast, 'new', { cron: '0 3 1 1 *' })
    await call(holdfast.schedules)
  })

  test('run of another name throws UnknownScheduleError', async () => {
    const holdfast = await open({ url: await databaseUrl() })
    add(holdfast, 'new', { cron: '0 3 1 1 *' })
    await holdfast.schedules.find('new')
    const error = await caught(UnknownScheduleError, holdfast.schedules.run('other'))
    expect(error.hint).toContain('schedules.list()')
    for (const call of [
      () => holdfast.schedules.run('nwe'),
      () => holdfast.schedules.pause('nwe'),
      () => holdfast.schedules.resume('nwe'),
      () => holdfast.schedules.override('nwe', null),
    ]) {
      expect((await caught(UnknownScheduleError, call())).hint).toBe('Did you mean "new"?')
    }
  })

  test.each(Object.entries(calls))(
    '%s throws the error of the database if the database refuses the schedule',
    async (_, call) => {
      const url = await databaseUrl()
      const holdfast = await open({ url })
      await sql(url, 'alter function holdfast.schedule_declare rename to schedule_gone')
      add(holdfast, 'new', { cron: '0 3 1 1 *' })
      const error = await caught(DatabaseError, within(5_000, 'the call', call(holdfast.schedules)))
      expect(error.message).toContain('schedule_declare')
    },
  )

  test('a call rejects with ClosedError if the instance closes', async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url })
    const blocker = await sqlSession(url)
    await blocker.query('begin; lock table holdfast.schedule')
    add(holdfast, 'new', { cron: '0 3 1 1 *' })
    const running = caught(ClosedError, holdfast.schedules.run('new'))
    const closing = holdfast.close()
    await within(5_000, 'the call', running)
    await blocker.query('rollback')
    await closing
  })
})
