// The calendar reads fields of croner's parsed pattern that croner does not document. So its version is pinned, and these tests fail when an
// upgrade changes a field.
import { readFileSync } from 'node:fs'
import { CronPattern } from 'croner'
import { expect, test } from 'vitest'

const read = (path: string) => JSON.parse(readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8'))
const parse = (cron: string) => new CronPattern(cron, undefined, { mode: '5-or-6-parts', fixedTimeRule: 'no-wildcard' })
const set = (flags: readonly number[]) => flags.flatMap((flag, index) => (flag ? [index] : []))

test('package.json pins croner to one exact version, and this version is installed', () => {
  const { dependencies } = read('package.json')
  expect(dependencies.croner).toMatch(/^\d+\.\d+\.\d+$/)
  expect(read('node_modules/croner/package.json').version).toBe(dependencies.croner)
})

test('a parsed pattern has an array of flags for each field, months and days from 0', () => {
  const { second, minute, hour, day, month } = parse('5 10,20 3-4 1,31 FEB *')
  expect([second, minute, hour, day, month].map((flags) => flags.length)).toEqual([60, 60, 24, 31, 12])
  expect([second, minute, hour, day, month].map(set)).toEqual([[5], [10, 20], [3, 4], [0, 30], [1]])
})

test('a parsed pattern has a bit for each week of a weekday, and a sixth bit for the last', () => {
  const { dayOfWeek } = parse('0 0 * * MON,TUE#2,FRI#L')
  expect([...dayOfWeek]).toEqual([0, 0b111111, 0b000010, 0, 0, 0b100000, 0])
})

test('a parsed pattern has separate fields for the special days of a month', () => {
  const { lastDayOfMonth, lastWeekday, nearestWeekdays } = parse('0 0 L * *')
  expect([lastDayOfMonth, lastWeekday, set(nearestWeekdays)]).toEqual([true, false, []])
  expect(parse('0 0 LW * *').lastWeekday).toBe(true)
  expect(set(parse('0 0 15W * *').nearestWeekdays)).toEqual([14])
})

test('a parsed pattern shows how its dates and weekdays combine, and whether its times are fixed', () => {
  const { starDOM, starDOW, useAndLogic, isFixedTime } = parse('0 3 * * MON')
  expect([starDOM, starDOW, useAndLogic, isFixedTime]).toEqual([true, false, false, true])
  expect(parse('0 3 1 * +MON').useAndLogic).toBe(true)
  expect(parse('*/5 3 * * *').isFixedTime).toBe(false)
})
