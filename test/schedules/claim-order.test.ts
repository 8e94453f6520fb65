import { describe, expect, test } from 'vitest'
import { ruleFromOptions } from '../../src/cron/index.js'
import { isWatcher, planClaim } from '../../src/schedules/claim-order.js'
import type { ScheduleState } from '../../src/schedules/store.js'

const secondly = ruleFromOptions('a test', { every: '1s' })
const from = Date.UTC(2026, 6, 1)
const ticks = Array.from({ length: 300 }, (_, at) => from + at * 1_000)
const options = { sticky: false, spreadMs: 40 }

const stateOf = (place: number, members: number, nextMs: number, dueMs = 700, last: string | null = null) =>
  ['4711', secondly.text, nextMs, dueMs, last, 1, null, place, members] satisfies ScheduleState

/** Returns the delays of the members that claim the tick, in order. */
function delaysOf(members: number, tickMs: number): { place: number; afterMs: number }[] {
  return Array.from({ length: members }, (_, place) => ({
    place,
    plan: planClaim(stateOf(place, members, tickMs), secondly, options, 'a'),
  }))
    .filter(({ plan }) => plan?.tickMs === tickMs)
    .map(({ place, plan }) => ({ place, afterMs: plan!.inMs - 700 }))
    .sort((a, b) => a.afterMs - b.afterMs)
}

describe.each([1, 2, 3, 4, 150])('with %i members', (members) => {
  test('each tick has up to three claimers, one after the other', () => {
    for (const tick of ticks) {
      const delays = delaysOf(members, tick).map(({ afterMs }) => afterMs)
      expect(delays.length).toBe(Math.min(3, members))
      expect(delays[0]).toBeLessThan(40)
      if (members > 1) expect(delays[1]).toBeGreaterThan(100)
      if (members > 2) expect(delays[2]! - delays[1]!).toBeGreaterThan(50)
    }
  })

  test('up to three members watch the active runs', () => {
    const watchers = Array.from({ length: members }, (_, place) => isWatcher(stateOf(place, members, from))).filter(
      Boolean,
    )
    expect(watchers.length).toBe(Math.min(3, members))
  })
})

test('the first claimers of many ticks are distributed over all members', () => {
  const firsts = ticks.map((tick) => delaysOf(10, tick)[0]!.place)
  for (let place = 0; place < 10; place++) expect(firsts.filter((first) => first === place).length).toBeGreaterThan(10)
})

test('a member that does not claim the next tick plans a later one', () => {
  for (const tick of ticks.slice(0, 20)) {
    for (let place = 0; place < 10; place++) {
      const plan = planClaim(stateOf(place, 10, tick), secondly, options, 'a')
      if (!plan) continue
      expect(delaysOf(10, plan.tickMs).map((one) => one.place)).toContain(place)
      expect(plan.inMs - (plan.tickMs - tick)).toBeGreaterThanOrEqual(700)
    }
  }
})

test('every member claims a tick that is overdue by half a second', () => {
  for (let place = 0; place < 50; place++) {
    expect(planClaim(stateOf(place, 50, from, -501), secondly, options, 'a')).toMatchObject({ tickMs: from })
  }
})

test('with sticky, the instance of the last tick claims without a delay, and the others after it', () => {
  const sticky = { sticky: true, spreadMs: 40 }
  for (let place = 0; place < 10; place++) {
    expect(planClaim(stateOf(place, 10, from, 700, 'a'), secondly, sticky, 'a')).toEqual({ tickMs: from, inMs: 700 })
    const other = planClaim(stateOf(place, 10, from, 700, 'b'), secondly, sticky, 'a')
    // Two of the ten members claim a tick after the instance of the last tick.
    if (other) expect(other.inMs - (other.tickMs - from)).toBeGreaterThan(800)
  }
})

test('a schedule without a next tick has no claim', () => {
  const over: ScheduleState = ['4711', secondly.text, null, null, null, 1, null, 0, 1]
  expect(planClaim(over, secondly, options, 'a')).toBeUndefined()
})
