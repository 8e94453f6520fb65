import { expect, test } from 'vitest'
import type { Holdfast, ScheduleOptions } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { add, gapsOf, lastWeek, runsOf, setBack, unproven, untilMember, untilRuns, weekMs } from './fixture.js'

/** A schedule of every week of which nobody has taken the last six ticks, and an instance that comes back to it. */
async function comeBack(
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
  await until('what was missed is settled', async () => {
    const [row] = await sql<{ next_at: Date }>(url, 'select next_at from holdfast.schedule')
    return row!.next_at.getTime() > Date.now()
  })
  return { url, holdfast, last, ran }
}

const weeks = (date: Date, count: number) => new Date(date.getTime() + count * weekMs)

test('skip: what was missed while nobody was there is one gap, and says so', async () => {
  const { url, holdfast, last, ran } = await comeBack({})
  const gaps = await gapsOf(holdfast, 'weekly')
  expect(gaps).toEqual([{ kind: 'gap', first: weeks(last, -5), last, ticks: 6, reason: 'no instance' }])
  expect(ran).toEqual([])
  expect(await unproven(url, 'weekly', weekMs)).toEqual([])
})

test('latest: the last one runs, late', async () => {
  const { url, holdfast, last, ran } = await comeBack({ missed: 'latest' })
  await untilRuns(holdfast, 'weekly', ['done'])
  expect(ran).toEqual([last])
  expect(await gapsOf(holdfast, 'weekly')).toEqual([
    { kind: 'gap', first: weeks(last, -5), last: weeks(last, -1), ticks: 5, reason: 'no instance' },
  ])
  expect(await unproven(url, 'weekly', weekMs)).toEqual([])
})

test('all: up to so many run, one after the other, the oldest first; those before are a gap', async () => {
  const { url, holdfast, last, ran } = await comeBack({ missed: { all: 4 } })
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

test('what was missed while a member was there is told apart from before', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  add(holdfast, 'weekly', { every: '7d' })
  await untilMember(holdfast, 'weekly')
  const last = await lastWeek(url)
  // It has been there for two and a half weeks, but cut off.
  await sql(url, 'update holdfast.schedule_member set since = $1', [weeks(last, -2.5)])
  await sql(url, 'update holdfast.schedule_rule set since = $1', [weeks(last, -10)])
  await setBack(url, 'weekly', weeks(last, -9))
  await sql(url, "select pg_notify('holdfast', 'schedule-changed ' || key) from holdfast.schedule")
  const gaps = await until('it is settled', async () => {
    const found = await gapsOf(holdfast, 'weekly')
    return found.length === 2 && found
  })
  expect(gaps).toEqual([
    { kind: 'gap', first: weeks(last, -9), last: weeks(last, -3), ticks: 7, reason: 'no instance' },
    expect.objectContaining({ kind: 'gap', first: weeks(last, -2), reason: 'missed' }),
  ])
  expect(await unproven(url, 'weekly', weekMs)).toEqual([])
})

test('a day of seconds that nobody took is one gap', async () => {
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

test('a moment that has passed runs late with latest, and never again', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: Date[] = []
  const at = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 1_000)
  add(holdfast, 'once', { at }, ({ tick }) => ran.push(tick))
  await untilRuns(holdfast, 'once', ['done'])
  expect(ran).toEqual([at])
  expect((await holdfast.schedules.find('once'))!.nextAt).toBeUndefined()
})
