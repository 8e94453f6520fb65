import { afterEach, expect, test, vi } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, openFleet } from '../setup/instances.js'
import { add, runsOf, unproven, untilMember } from './fixture.js'

afterEach(() => {
  vi.useRealTimers()
})

test.each([-5, 26])('a schedule ticks correctly if the clock of its process is wrong by %i hours', async (hours) => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 2)
  const [before] = await sql<{ now: Date }>(url, 'select now()')
  // Only the date of this process is wrong. Its timers are correct.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + hours * 3_600_000 })
  const ran: number[] = []
  const lates: number[] = []
  for (const holdfast of fleet) {
    add(holdfast, 'wrong', { every: '1s' }, ({ tick, lateMs }) => {
      ran.push(tick.getTime())
      lates.push(lateMs)
    })
  }
  await untilMember(fleet[0]!, 'wrong')
  await until('three ticks have run', () => ran.length >= 3)
  expect(Math.abs(ran[0]! - before!.now.getTime())).toBeLessThan(10_000)
  await fleet[0]!.schedules.override('wrong', { cron: '* * * * * *' })
  await until('five ticks have run', () => ran.length >= 5)
  expect(Math.min(...lates)).toBeLessThan(1_000)
  expect(new Set(ran).size).toBe(ran.length)
  expect((await runsOf(fleet[0]!, 'wrong')).length).toBeGreaterThanOrEqual(5)
  expect(await unproven(url, 'wrong', 1_000)).toEqual([])
})
