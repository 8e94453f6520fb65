import { expect, test } from 'vitest'
import { ruleFromOptions } from '../../src/cron/index.js'
import { nearestTick, untilMoment } from '../../src/schedules/nearest.js'

const nightly = ruleFromOptions('a test', { cron: '0 3 * * *' })
const minutely = ruleFromOptions('a test', { every: '1m' })

test.each([
  ['a clock at the tick', nightly, '2026-03-02T03:00:00.000Z', '2026-03-02T03:00:00.000Z'],
  ['a clock one second after the tick', nightly, '2026-03-02T03:00:01.000Z', '2026-03-02T03:00:00.000Z'],
  ['a clock hours after the tick', nightly, '2026-03-02T22:00:00.000Z', '2026-03-02T03:00:00.000Z'],
  ['a clock five minutes before the tick', nightly, '2026-03-02T02:55:00.000Z', '2026-03-02T03:00:00.000Z'],
  [
    'a clock more than five minutes before the tick, which is nearer to the previous tick',
    nightly,
    '2026-03-02T02:54:59.000Z',
    '2026-03-01T03:00:00.000Z',
  ],
  [
    'a clock less than half of the interval after the tick',
    minutely,
    '2026-03-02T03:00:29.999Z',
    '2026-03-02T03:00:00.000Z',
  ],
  ['a clock half of the interval before the tick', minutely, '2026-03-02T03:00:30.000Z', '2026-03-02T03:01:00.000Z'],
] as const)('nearestTick returns the expected tick for %s', (_, rule, now, tick) => {
  expect(nearestTick(rule, Date.parse(now))?.toISOString()).toBe(tick)
})

test('nearestTick returns the last tick of an ended rule, and null for a rule whose first tick is far away', () => {
  const once = ruleFromOptions('a test', { at: new Date('2026-03-02T03:00:00Z') })
  expect(nearestTick(once, Date.parse('2027-01-01T00:00:00Z'))).toEqual(new Date('2026-03-02T03:00:00Z'))
  expect(nearestTick(once, Date.parse('2026-03-02T02:50:00Z'))).toBe(null)
  expect(nearestTick(once, Date.parse('2026-03-02T02:59:00Z'))).toEqual(new Date('2026-03-02T03:00:00Z'))
})

test('untilMoment waits until the given clock reaches the moment, or the signal aborts', async () => {
  const offsets = [-20, -5, 3]
  await untilMoment(new Date(1_000), async () => 1_000 + offsets.shift()!)
  expect(offsets).toEqual([])
  const reason = new Error('aborted')
  await expect(untilMoment(new Date(1e12), async () => 0, AbortSignal.abort(reason))).rejects.toBe(reason)
})
