import { expect, test } from 'vitest'
import { ruleFromOptions } from '../../src/cron/index.js'
import { firstTicks, planSettlement } from '../../src/schedules/ticks.js'

const at = (text: string) => new Date(`2026-07-01T${text}Z`)
const hourly = ruleFromOptions('a test', { every: '1h' })

test('planSettlement returns the due tick and the next five', () => {
  expect(planSettlement(hourly, at('03:00').getTime(), at('03:00:01').getTime(), 1, undefined)).toEqual({
    older: undefined,
    ticks: ['03:00', '04:00', '05:00', '06:00', '07:00', '08:00'].map(at),
    is_over: false,
  })
})

test('planSettlement returns the latest due ticks one by one, and the older ones as one range', () => {
  const { older, ticks } = planSettlement(hourly, at('01:00').getTime(), at('10:30').getTime(), 2, undefined)
  expect(older).toEqual([{ first_at: at('01:00'), last_at: at('08:00'), n: 8 }])
  expect(ticks.slice(0, 3)).toEqual([at('09:00'), at('10:00'), at('11:00')])
})

test('planSettlement splits the older ticks at the arrival of the first member', () => {
  const { older } = planSettlement(hourly, at('01:00').getTime(), at('10:30').getTime(), 1, at('04:00').getTime())
  expect(older).toEqual([
    { first_at: at('01:00'), last_at: at('03:00'), n: 3 },
    { first_at: at('04:00'), last_at: at('09:00'), n: 6 },
  ])
  expect(
    planSettlement(hourly, at('01:00').getTime(), at('10:30').getTime(), 1, at('00:30').getTime()).older,
  ).toHaveLength(1)
  expect(
    planSettlement(hourly, at('01:00').getTime(), at('10:30').getTime(), 1, at('23:00').getTime()).older,
  ).toHaveLength(1)
})

test('planSettlement accepts a next tick that the rule does not contain', () => {
  const other = planSettlement(hourly, at('01:30').getTime(), at('04:10').getTime(), 1, undefined)
  expect(other.older).toEqual([{ first_at: at('01:30'), last_at: at('03:00'), n: 3 }])
  expect(other.ticks[0]).toEqual(at('04:00'))
  const alone = planSettlement(hourly, at('03:30').getTime(), at('04:10').getTime(), 5, undefined)
  expect(alone.older).toEqual([{ first_at: at('03:30'), last_at: at('03:30'), n: 1 }])
  const due = planSettlement(hourly, at('03:30').getTime(), at('03:40').getTime(), 5, undefined)
  expect(due).toMatchObject({ older: undefined, ticks: [at('03:30'), at('04:00')].concat(due.ticks.slice(2)) })
})

test('planSettlement also returns a next tick that is not due', () => {
  const { older, ticks } = planSettlement(hourly, at('03:00').getTime(), at('02:59:59').getTime(), 1, undefined)
  expect(older).toBeUndefined()
  expect(ticks[0]).toEqual(at('03:00'))
})

test('planSettlement and firstTicks show that a rule has no further ticks', () => {
  const once = ruleFromOptions('a test', { at: at('03:00') })
  expect(planSettlement(once, at('03:00').getTime(), at('03:00').getTime(), 1, undefined)).toEqual({
    older: undefined,
    ticks: [at('03:00')],
    is_over: true,
  })
  expect(firstTicks(once, at('04:00').getTime())).toEqual({ ticks: [], isOver: true })
  expect(firstTicks(once, at('02:00').getTime())).toEqual({ ticks: [at('03:00')], isOver: true })
})

test('firstTicks starts before the current time, because the clock of the database may be behind', () => {
  const { ticks, isOver } = firstTicks(hourly, at('03:00:00.500').getTime())
  expect(ticks.slice(0, 2)).toEqual([at('03:00'), at('04:00')])
  expect(isOver).toBe(false)
})
