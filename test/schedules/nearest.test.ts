import { expect, test } from 'vitest'
import { ruleFromOptions } from '../../src/cron/index.js'
import { nearestTick, untilMoment } from '../../src/schedules/nearest.js'

const nightly = ruleFromOptions('a test', { cron: '0 3 * * *' })
const minutely = ruleFromOptions('a test', { every: '1m' })

test.each([
  ['at the tick', nightly, '2026-03-02T03:00:00.000Z', '2026-03-02T03:00:00.000Z'],
  ['slow by a second', nightly, '2026-03-02T03:00:01.000Z', '2026-03-02T03:00:00.000Z'],
  ['slow by hours', nightly, '2026-03-02T22:00:00.000Z', '2026-03-02T03:00:00.000Z'],
  ['quick by five minutes', nightly, '2026-03-02T02:55:00.000Z', '2026-03-02T03:00:00.000Z'],
  ['quick by more: it means the tick before', nightly, '2026-03-02T02:54:59.000Z', '2026-03-01T03:00:00.000Z'],
  ['slow by less than half of the time', minutely, '2026-03-02T03:00:29.999Z', '2026-03-02T03:00:00.000Z'],
  ['quick by half of the time', minutely, '2026-03-02T03:00:30.000Z', '2026-03-02T03:01:00.000Z'],
] as const)('%s', (_, rule, now, tick) => {
  expect(nearestTick(rule, Date.parse(now))?.toISOString()).toBe(tick)
})

test('a rule that is over has its last tick; one that has not begun has none, until it is near', () => {
  const once = ruleFromOptions('a test', { at: new Date('2026-03-02T03:00:00Z') })
  expect(nearestTick(once, Date.parse('2027-01-01T00:00:00Z'))).toEqual(new Date('2026-03-02T03:00:00Z'))
  expect(nearestTick(once, Date.parse('2026-03-02T02:50:00Z'))).toBe(null)
  expect(nearestTick(once, Date.parse('2026-03-02T02:59:00Z'))).toEqual(new Date('2026-03-02T03:00:00Z'))
})

test('a clock that is asked decides when a moment has come, and an abort ends the wait', async () => {
  const answers = [-20, -5, 3]
  await untilMoment(new Date(1_000), async () => 1_000 + answers.shift()!)
  expect(answers).toEqual([])
  const told = new Error('told')
  await expect(untilMoment(new Date(1e12), async () => 0, AbortSignal.abort(told))).rejects.toBe(told)
})
