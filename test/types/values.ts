// What compiles and what does not compile for durations, rates, points in time and error codes. `npm run types` checks this file. No
// test runs it.
import { Temporal } from 'temporal-polyfill'
import type { Duration, Holdfast, HoldfastError, HoldfastErrorCode, Instant, Rate } from '../../src/index.js'
import { is } from './is.js'

declare const holdfast: Holdfast
declare const minutes: number
declare const text: string

export const durations: Duration[] = [
  0,
  1_500,
  '250ms',
  '30s',
  '1.5h',
  '1m30s',
  '1d2h3m4s5ms',
  '1d5ms',
  `${minutes}m`,
  Temporal.Duration.from({ minutes: 5 }),
]
export const notDurations: Duration[] = [
  // @ts-expect-error: no unit
  '30',
  // @ts-expect-error: no number
  's',
  // @ts-expect-error: no number
  '',
  // @ts-expect-error: a word
  'soon',
  // @ts-expect-error: no unit of Holdfast
  '5min',
  // @ts-expect-error: no unit of Holdfast
  '2w',
  // @ts-expect-error: the units are in the wrong order
  '30s1m',
  // @ts-expect-error: a unit occurs twice
  '1m1m',
  // @ts-expect-error: text of any kind
  text,
  // @ts-expect-error: a bigint
  5n,
  // @ts-expect-error: null
  null,
  // @ts-expect-error: a point in time
  new Date(),
  // @ts-expect-error: a Temporal value that is not a duration
  Temporal.Now.instant(),
]

export const rates: Rate[] = [
  '100/min',
  '5/s',
  '1000/h',
  '1/d',
  '1/m',
  `${minutes}/min`,
  { count: 3, per: '10s' },
  { count: 3, per: Temporal.Duration.from({ seconds: 10 }) },
]
export const notRates: Rate[] = [
  // @ts-expect-error: no period
  '100',
  // @ts-expect-error: no period of Holdfast
  '100/week',
  // @ts-expect-error: a word
  'often',
  // @ts-expect-error: text of any kind
  text,
  // @ts-expect-error: no period
  { count: 3 },
  // @ts-expect-error: no duration
  { count: 3, per: 'minute' },
]

export const instants: Instant[] = [new Date(), Temporal.Now.instant(), Temporal.Now.zonedDateTimeISO()]
export const notInstants: Instant[] = [
  // @ts-expect-error: text
  '2030-01-01T00:00:00Z',
  // @ts-expect-error: a number
  1_893_456_000_000,
  // @ts-expect-error: a date without a time zone
  Temporal.Now.plainDateTimeISO(),
]
holdfast.schedules.add('once', { at: Temporal.Now.instant() }, () => {})
holdfast.shares.each('exports', ['x'], { round: Temporal.Now.zonedDateTimeISO() }, () => {})

// The function is the last argument. The options are optional and come before it.
holdfast.once.run('key', () => 1)
holdfast.once.run('key', { wait: '1s' }, () => 1)
holdfast.elections.campaign('name', ({ term }) => is<number>()(term))
holdfast.elections.campaign('name', { preferred: true }, ({ term }) => is<number>()(term))
holdfast.shares.each('name', ['x'], (resource) => is<string>()(resource))
holdfast.jobs.enqueueWorkflow({}, () => {})
holdfast.locks.with('name', { wait: '1s' }, () => {})
// @ts-expect-error: options after the function
holdfast.once.run('key', () => 1, { wait: '1s' })
// @ts-expect-error: options after the function
holdfast.elections.campaign('name', () => {}, { preferred: true })
// @ts-expect-error: options after the function
holdfast.shares.each('name', ['x'], () => {}, { concurrency: 2 })
// @ts-expect-error: options after the function
holdfast.jobs.enqueueWorkflow(() => {}, {})
// @ts-expect-error: options without a function
holdfast.once.run('key', { wait: '1s' })

export function isBusy(error: HoldfastError): boolean {
  is<HoldfastErrorCode>()(error.code)
  switch (error.code) {
    case 'LOCK_TIMEOUT':
    case 'LIMIT_REACHED':
    case 'RESULT_TIMEOUT':
    case 'EMBEDDED_PORT_TAKEN':
      return true
    // @ts-expect-error: no code of Holdfast
    case 'LOCK_TIMED_OUT':
      return true
    default:
      return false
  }
}
