import { Temporal } from 'temporal-polyfill'
import { expect, test } from 'vitest'
import { formatDuration, parseDuration } from '../../src/base/index.js'

test.each<[unknown, number]>([
  [0, 0],
  [1500, 1500],
  [0.5, 0.5],
  ['250ms', 250],
  ['30s', 30_000],
  ['5m', 300_000],
  ['2h', 7_200_000],
  ['1d', 86_400_000],
  ['1.5s', 1500],
  ['1m30s', 90_000],
  ['1h2m3s4ms', 3_723_004],
  ['1d5ms', 86_400_005],
  [Temporal.Duration.from({ hours: 1, seconds: 30 }), 3_630_000],
])('parseDuration reads %j as %d ms', (given, ms) => {
  expect(parseDuration(given)).toBe(ms)
})

test.each([
  '',
  '30',
  's',
  '-5s',
  '5 s',
  ' 5s',
  '5S',
  '1.5.5s',
  '5w',
  'soon',
  '5s!',
  '30s1m',
  '1m1m',
  '0x1s',
  '1e3s',
  Temporal.Duration.from({ seconds: -1 }),
  Temporal.Duration.from({ weeks: 1 }),
  Temporal.Now.instant(),
  { total: () => '5s' },
  -1,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  5n,
  null,
  undefined,
  {},
  ['5s'],
])('parseDuration returns undefined for %o', (given) => {
  expect(parseDuration(given)).toBeUndefined()
})

test.each([
  [0, '0ms'],
  [12.3, '12ms'],
  [999, '999ms'],
  [1_000, '1s'],
  [2_500, '2.5s'],
  [60_000, '1m'],
  [200_000, '3m 20s'],
  [3_600_000, '1h'],
  [14_520_000, '4h 2m'],
  [90_061_000, '1d 1h'],
])('formatDuration writes %d ms as %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text)
})
