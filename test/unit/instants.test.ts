import { Temporal } from 'temporal-polyfill'
import { expect, test } from 'vitest'
import { parseInstant } from '../../src/base/index.js'

const text = '2030-01-31T18:00:00.000Z'

test.each([
  new Date(text),
  Temporal.Instant.from(text),
  Temporal.Instant.from(text).toZonedDateTimeISO('Asia/Tokyo'),
  { epochMilliseconds: Date.parse(text) },
])('parseInstant returns the Date of %o', (given) => {
  expect(parseInstant(given)).toEqual(new Date(text))
})

test.each([
  new Date(Number.NaN),
  text,
  Date.parse(text),
  { epochMilliseconds: Number.NaN },
  { epochMilliseconds: '0' },
  Temporal.PlainDate.from('2030-01-31'),
  {},
  null,
  undefined,
])('parseInstant returns undefined for %o', (given) => {
  expect(parseInstant(given)).toBeUndefined()
})
