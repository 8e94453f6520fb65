import { expect, test } from 'vitest'
import type { Holdfast, ScheduleOptions } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { add, gapsOf, lastWeek, runsOf, setBack, unproven, untilMember, untilRuns, weekMs } from './fixture.js'

/** Starts an instance with a weekly schedule whose last six ticks were missed because no instance was running. */
async function restartAfterSixWeeks(
  options: ScheduleOptions,
): Promise<{ url: string; holdfast: Holdfast; last: Date; ran: Date[] }> {
  const url = await databaseUrl()
  const before = await open({ url })
  const ran: Date[] = []
  add(before, 'weekly', { every: '7d', ...options })
  await untilMember(before, 'weekly')
  await before.close()
  const last = await lastWeek(url)
  await setBack(url, 'weekly', weeks(last, -5))
  await sql(url, 'update holdfast.schedule_rule set since = $1', [weeks(last, -6)])
  const holdfast = await open({ url })
  add(holdfast, 'weekly', { every: '7d', ...options }, ({ tick }) => ran.push(tick))
  await until('the missed ticks are settled', async () => {
    const [row] = await sql<{ next_at: Date }>(url, 'select next_at from holdfast.schedule')
    return row!.next_at.getTime() > Date.now()
  })
  return { url, holdfast, last, ran }
}

const weeks = (date: Date, count: number) => new Date(date.getTime() + count * weekMs)

test('missed "skip" records the ticks without a running instance as one gap', async () => {
  const { url, holdfast, last, ran } = await restartAfterSixWeeks({})
  const gaps = await gapsOf(holdfast, 'weekly')
  expect(gaps).toEqual([{ kind: 'gap', first: weeks(last, -5), last, ticks: 6, reason: 'no instance' }])
  expect(ran).toEqual([])
  expect(await unproven(url, 'weekly', weekMs)).toEqual([])
})

test('missed "latest" runs the last missed tick late', async () => {
  const { url, holdfast, last, ran } = await restartAfterSixWeeks({ missed: 'latest' })
  await untilRuns(holdfast, 'weekly', ['done'])
  expect(ran).toEqual([last])
  expect(await gapsOf(holdfast, 'weekly')).toEqual([
    { kind: 'gap', first: weeks(last, -5), last: weeks(last, -1), ticks: 5, reason: 'no instance' },
  ])
  expect(await unproven(url, 'weekly', weekMs)).toEqual([])
})

test('missed "all" runs the last N missed ticks one after the other, the oldest first, and records older ticks as a gap', async () => {
  const { url, holdfast, last, ran } = await restartAfterSixWeeks({ missed: { all: 4 } })
  await untilRuns(holdfast, 'weekly', ['done'], 4)
  expect(ran).toEqual([-3, -2, -1, 0].map((count) => weeks(last, count)))
  const runs = await runsOf(holdfast, 'weekly')
  for (const [at, run] of runs.entries()) {
    if (at > 0) expect(run.startedAt!.getTime()).toBeGreaterThanOrEqual(runs[at - 1]!.endedAt!.getTime())
  }
  expect(await gapsOf(holdfast, 'weekly')).toEqual([
    { kind: 'gap', first: weeks(last, -5), last: weeks(last, -4), ticks: 2, reason: 'limit' },
  ])
  expect(await unproven(url, 'weekly', weekMs)).toEqual([])
})

test('ticks that were missed with a member have another gap than those without a member', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  add(holdfast, 'weekly', { every: '7d' })
  await untilMember(holdfast, 'weekly')
  const last = await lastWeek(url)
  // The instance has been a member for two and a half weeks, but was disconnected.
  await sql(url, 'update holdfast.schedule_member set since = $1', [weeks(last, -2.5)])
  await sql(url, 'update holdfast.schedule_rule set since = $1', [weeks(last, -10)])
  await setBack(url, 'weekly', weeks(last, -9))
  await sql(url, "select pg_notify('holdfast', 'schedule-changed ' || key) from holdfast.schedule")
  const gaps = await until('both gaps are recorded', async () => {
    const found = await gapsOf(holdfast, 'weekly')
    return found.length === 2 && found
  })
  expect(gaps).toEqual([
    { kind: 'gap', first: weeks(last, -9), last: weeks(last, -3), ticks: 7, reason: 'no instance' },
    expect.objectContaining({ kind: 'gap', first: weeks(last, -2), reason: 'missed' }),
  ])
  expect(await unproven(url, 'weekly', weekMs)).toEqual([])
})

test('one day of missed ticks every second is one gap', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  add(holdfast, 'seconds', { every: '1s' })
  await untilRuns(holdfast, 'seconds', ['done'])
  await holdfast.close()
  const other = await open({ url })
  const [row] = await sql<{ next_at: Date }>(
    url,
    `update holdfast.schedule
     set next_at = date_bin('1 second', now() - interval '1 day', 'epoch'), settled_at = null
     returning next_at`,
  )
  await sql(url, 'delete from holdfast.tick')
  await sql(url, 'update holdfast.schedule_rule set since = $1', [new Date(row!.next_at.getTime() - 1)])
  add(other, 'seconds', { every: '1s' })
  const [first] = await untilRuns(other, 'seconds', ['done'])
  const [gap] = await gapsOf(other, 'seconds')
  expect(gap).toMatchObject({ reason: 'no instance', first: row!.next_at })
  expect(gap!.ticks).toBe((first!.tick.getTime() - row!.next_at.getTime()) / 1_000)
  expect(await unproven(url, 'seconds', 1_000)).toEqual([])
})

test('a schedule with `at` runs once and has no next tick', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: Date[] = []
  const at = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 1_000)
  add(holdfast, 'once', { at }, ({ tick }) => ran.push(tick))
  await untilRuns(holdfast, 'once', ['done'])
  expect(ran).toEqual([at])
  expect((await holdfast.schedules.find('once'))!.nextAt).toBeUndefined()
})
