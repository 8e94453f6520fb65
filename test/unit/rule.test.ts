import { afterEach, describe, expect, test, vi } from 'vitest'
import { UsageError } from '../../src/base/index.js'
import { type RuleOptions, ruleFromOptions, ruleFromText, type TickRule } from '../../src/cron/index.js'

const cron = (expression: string, timezone?: string) => ruleFromOptions('the test', { cron: expression, timezone })
const at = (text: string) => new Date(text)

function ticks(rule: TickRule, from: string, many: number): string[] {
  const found: string[] = []
  for (let tick = rule.next(at(from)); tick && found.length < many; tick = rule.next(tick)) {
    const { time, offset, note } = rule.local(tick)
    found.push(`${tick.toISOString().slice(0, 16)} = ${time.slice(5, 16)} ${offset}${note ? `, ${note}` : ''}`)
  }
  return found
}

describe('if the clocks go forward', () => {
  test('a rule with a fixed time that is skipped ticks after the change', () => {
    expect(ticks(cron('30 1 * * *', 'Europe/London'), '2026-03-28T00:00Z', 3)).toEqual([
      '2026-03-28T01:30 = 03-28 01:30 +00:00',
      '2026-03-29T01:00 = 03-29 02:00 +01:00, clock change: replaces 01:30',
      '2026-03-30T00:30 = 03-30 01:30 +01:00',
    ])
    expect(ticks(cron('30 2,14 * * *', 'America/New_York'), '2026-03-08T00:00Z', 3)).toEqual([
      '2026-03-08T07:00 = 03-08 03:00 -04:00, clock change: replaces 02:30',
      '2026-03-08T18:30 = 03-08 14:30 -04:00',
      '2026-03-09T06:30 = 03-09 02:30 -04:00',
    ])
  })

  test('several skipped times and the time after the change are one tick', () => {
    expect(ticks(cron('0,15 2 * * *', 'Australia/Lord_Howe'), '2026-10-03T00:00+11:00', 4)).toEqual([
      '2026-10-02T15:30 = 10-03 02:00 +10:30',
      '2026-10-02T15:45 = 10-03 02:15 +10:30',
      '2026-10-03T15:30 = 10-04 02:30 +11:00, clock change: replaces 02:00–02:15',
      '2026-10-04T15:00 = 10-05 02:00 +11:00',
    ])
    const small = cron('0 1-3 * * *', 'America/New_York')
    expect(small.count(at('2026-03-08T05:00Z'), at('2026-03-09T04:00Z'))).toBe(2)
    expect(ticks(small, '2026-03-08T00:00Z', 3)).toEqual([
      '2026-03-08T06:00 = 03-08 01:00 -05:00',
      '2026-03-08T07:00 = 03-08 03:00 -04:00, clock change: replaces 02:00',
      '2026-03-09T05:00 = 03-09 01:00 -04:00',
    ])
  })

  test('a skipped midnight ticks on its day', () => {
    expect(ticks(cron('0 0 * * *', 'America/Sao_Paulo'), '2018-11-03T12:00Z', 2)).toEqual([
      '2018-11-04T03:00 = 11-04 01:00 -02:00, clock change: replaces 00:00',
      '2018-11-05T02:00 = 11-05 00:00 -02:00',
    ])
  })

  test('a skipped time ticks at midnight of UTC', () => {
    expect(ticks(cron('30 0 * * *', 'Europe/Lisbon'), '1977-03-26T12:00Z', 2)).toEqual([
      '1977-03-27T00:00 = 03-27 01:00 +01:00, clock change: replaces 00:30',
      '1977-03-27T23:30 = 03-28 00:30 +01:00',
    ])
  })

  test('a repeating rule continues in real time', () => {
    expect(ticks(cron('*/20 * * * *', 'Europe/London'), '2026-03-29T00:30Z', 3)).toEqual([
      '2026-03-29T00:40 = 03-29 00:40 +00:00',
      '2026-03-29T01:00 = 03-29 02:00 +01:00, clock change: skips 01:00–01:40',
      '2026-03-29T01:20 = 03-29 02:20 +01:00',
    ])
    expect(ticks(cron('*/10 2 * * *', 'America/New_York'), '2026-03-08T06:00Z', 1)).toEqual([
      '2026-03-09T06:00 = 03-09 02:00 -04:00, clock change: skips 02:00–02:50',
    ])
  })

  test('a skipped day has no ticks', () => {
    expect(ticks(cron('0 9 * * *', 'Pacific/Apia'), '2011-12-29T00:00-10:00', 3)).toEqual([
      '2011-12-29T19:00 = 12-29 09:00 -10:00',
      '2011-12-30T19:00 = 12-31 09:00 +14:00, clock change: skips 2011-12-30',
      '2011-12-31T19:00 = 01-01 09:00 +14:00',
    ])
    expect(cron('0 9 30 12 *', 'Pacific/Apia').next(at('2011-01-01T00:00Z'))).toEqual(at('2012-12-29T19:00Z'))
  })
})

describe('if the clocks go back', () => {
  test('a rule with a fixed time that occurs twice ticks only the first time', () => {
    expect(ticks(cron('30 1 * * *', 'America/New_York'), '2026-11-01T00:00Z', 2)).toEqual([
      '2026-11-01T05:30 = 11-01 01:30 -04:00, first of two 01:30',
      '2026-11-02T06:30 = 11-02 01:30 -05:00',
    ])
    expect(ticks(cron('45 1 * * *', 'Australia/Lord_Howe'), '2026-04-04T12:00Z', 2)).toEqual([
      '2026-04-04T14:45 = 04-05 01:45 +11:00, first of two 01:45',
      '2026-04-05T15:15 = 04-06 01:45 +10:30',
    ])
  })

  test('a repeating rule ticks both times', () => {
    expect(ticks(cron('*/30 * * * *', 'Europe/London'), '2026-10-25T00:10Z', 4)).toEqual([
      '2026-10-25T00:30 = 10-25 01:30 +01:00, first of two 01:30',
      '2026-10-25T01:00 = 10-25 01:00 +00:00, second of two 01:00',
      '2026-10-25T01:30 = 10-25 01:30 +00:00, second of two 01:30',
      '2026-10-25T02:00 = 10-25 02:00 +00:00',
    ])
  })

  test('a change into the previous day repeats a midnight', () => {
    // In St. John's the clocks went back at a minute past midnight, until 2011.
    expect(ticks(cron('0 * * * *', 'America/St_Johns'), '2010-11-07T01:00Z', 4)).toEqual([
      '2010-11-07T01:30 = 11-06 23:00 -02:30',
      '2010-11-07T02:30 = 11-07 00:00 -02:30, first of two 00:00',
      '2010-11-07T03:30 = 11-07 00:00 -03:30, second of two 00:00',
      '2010-11-07T04:30 = 11-07 01:00 -03:30',
    ])
    expect(ticks(cron('0 0 * * *', 'America/St_Johns'), '2010-11-07T01:00Z', 2)).toEqual([
      '2010-11-07T02:30 = 11-07 00:00 -02:30, first of two 00:00',
      '2010-11-08T03:30 = 11-08 00:00 -03:30',
    ])
  })

  test('a change by almost a day repeats most of a day', () => {
    // Kwajalein moved to the other side of the date line and had most of 30 September 1969 twice.
    expect(ticks(cron('0 20 * * *', 'Pacific/Kwajalein'), '1969-09-30T00:00Z', 2)).toEqual([
      '1969-09-30T09:00 = 09-30 20:00 +11:00, first of two 20:00',
      '1969-10-02T08:00 = 10-01 20:00 -12:00',
    ])
    expect(ticks(cron('0 */12 * * *', 'Pacific/Kwajalein'), '1969-09-30T00:00Z', 3)).toEqual([
      '1969-09-30T01:00 = 09-30 12:00 +11:00, first of two 12:00',
      '1969-10-01T00:00 = 09-30 12:00 -12:00, second of two 12:00',
      '1969-10-01T12:00 = 10-01 00:00 -12:00',
    ])
  })

  test('a time zone that changes its clocks for Ramadan has correct ticks', () => {
    const rule = cron('30 2 * * *', 'Africa/Casablanca')
    expect(ticks(rule, '2026-02-14T12:00Z', 2)).toEqual([
      '2026-02-15T01:30 = 02-15 02:30 +01:00, first of two 02:30',
      '2026-02-16T02:30 = 02-16 02:30 +00:00',
    ])
    expect(ticks(rule, '2026-03-21T12:00Z', 2)).toEqual([
      '2026-03-22T02:00 = 03-22 03:00 +01:00, clock change: replaces 02:30',
      '2026-03-23T01:30 = 03-23 02:30 +01:00',
    ])
  })
})

test('a rule supports time zones whose offset is not a whole hour', () => {
  expect(ticks(cron('0 3 * * *', 'Asia/Kathmandu'), '2026-01-01T00:00Z', 1)).toEqual([
    '2026-01-01T21:15 = 01-02 03:00 +05:45',
  ])
})

describe('the days of a cron expression', () => {
  test.each([
    ['0 0 L * *', '2026-02-28', '2026-03-31'],
    ['0 0 LW * *', '2026-02-27', '2026-03-31'],
    ['0 0 15W * *', '2026-02-16', '2026-03-16'],
    ['0 0 * * FRI#2', '2026-02-13', '2026-03-13'],
    ['0 0 * * 1L', '2026-02-23', '2026-03-30'],
    ['0 0 29 2 *', '2028-02-29', '2032-02-29'],
    ['0 0 13 * FRI', '2026-02-06', '2026-02-13'],
    ['0 0 13 * +FRI', '2026-02-13', '2026-03-13'],
    ['@yearly', '2027-01-01', '2028-01-01'],
  ])('%s matches its dates', (expression, first, second) => {
    const rule = cron(expression)
    expect(rule.next(at('2026-02-01T00:00Z'))).toEqual(at(first))
    expect(rule.next(at(first))).toEqual(at(second))
    expect(rule.previous(at(second))).toEqual(at(first))
  })
})

describe('an interval', () => {
  test('an interval ticks at whole multiples since the epoch, so that all instances agree', () => {
    const rule = ruleFromOptions('the test', { every: '15m' })
    expect(rule.next(at('2026-01-01T00:07:00Z'))).toEqual(at('2026-01-01T00:15:00Z'))
    expect(rule.next(at('2026-01-01T00:15:00Z'))).toEqual(at('2026-01-01T00:30:00Z'))
    expect(rule.previous(at('2026-01-01T00:15:00Z'))).toEqual(at('2026-01-01T00:00:00Z'))
    expect(rule.count(at('2026-01-01T00:00Z'), at('2026-01-02T00:00Z'))).toBe(96)
    expect(rule.local(at('2026-01-01T00:15:00Z'))).toEqual({
      time: '2026-01-01 00:15:00',
      offset: '+00:00',
      note: null,
    })
  })

  test('an interval keeps its milliseconds', () => {
    const rule = ruleFromOptions('the test', { every: 1_500 })
    expect(rule.between(at('1970-01-01T00:00:00Z'), at('1970-01-01T00:00:04Z'), 9)).toEqual([
      new Date(1_500),
      new Date(3_000),
    ])
  })
})

test('a rule with `at` ticks once', () => {
  const moment = at('2026-06-01T12:00:00.250Z')
  const rule = ruleFromOptions('the test', { at: moment })
  const [before, after] = [new Date(moment.getTime() - 1), new Date(moment.getTime() + 1)]
  expect([rule.next(before), rule.next(moment)]).toEqual([moment, null])
  expect([rule.previous(after), rule.previous(moment)]).toEqual([moment, null])
  expect([rule.count(before, moment), rule.count(moment, after)]).toEqual([1, 0])
  expect(rule.between(before, after, 5)).toEqual([moment])
})

describe('the ticks between two times', () => {
  test('between, next, previous and count return the missed ticks', () => {
    const rule = cron('* * * * * *', 'America/New_York')
    const [from, last] = [at('2026-03-06T00:00:00Z'), at('2026-03-13T00:00:00.999Z')]
    const latest = rule.between(from, last, 2)
    expect(latest).toEqual([at('2026-03-12T23:59:59Z'), at('2026-03-13T00:00:00Z')])
    expect(rule.next(from)).toEqual(at('2026-03-06T00:00:01Z'))
    expect(rule.previous(latest[0]!)).toEqual(at('2026-03-12T23:59:58Z'))
    expect(rule.count(from, last)).toBe(7 * 86_400)
  })

  test('count counts the seconds of ten years without visiting each tick', () => {
    const [from, last] = [at('2026-01-01T00:00Z'), at('2036-01-01T00:00Z')]
    expect(cron('* * * * * *', 'Europe/London').count(from, last)).toBe(3_652 * 86_400)
    expect(cron('0 3 * * *', 'Europe/London').count(from, last)).toBe(3_652)
  })

  test('count returns 0 for a reversed range, and between returns no more ticks than its limit', () => {
    const rule = cron('* * * * *')
    expect(rule.count(at('2026-01-02T00:00Z'), at('2026-01-01T00:00Z'))).toBe(0)
    expect(ruleFromOptions('the test', { every: '1m' }).count(at('2026-01-02T00:00Z'), at('2026-01-01T00:00Z'))).toBe(0)
    expect(rule.between(at('2026-01-01T00:00Z'), at('2026-01-02T00:00Z'), 0)).toEqual([])
  })

  test('next and previous return null at the ends of the calendar', () => {
    const rule = cron('0 0 29 2 *')
    expect(rule.next(at('9999-01-01T00:00Z'))).toBeNull()
    expect(rule.next(new Date(8.64e15))).toBeNull()
    expect(rule.previous(at('1004-01-01T00:00Z'))).toBeNull()
    expect(rule.previous(new Date(-8.64e15))).toBeNull()
    expect(ruleFromOptions('the test', { every: '1s' }).next(at('9999-12-31T23:59:59Z'))).toBeNull()
  })
})

describe('the text of a rule', () => {
  test.each<[RuleOptions, string]>([
    [{ cron: '0 3 * * *' }, '{"cron":"0 3 * * *","timezone":"UTC"}'],
    [{ cron: ' 0\t3 ? jan mon-fri' }, '{"cron":"0 3 * JAN MON-FRI","timezone":"UTC"}'],
    [{ cron: '@Daily', timezone: 'Europe/London' }, '{"cron":"0 0 * * *","timezone":"Europe/London"}'],
    [{ cron: '0 0 3 * * *' }, '{"cron":"0 3 * * *","timezone":"UTC"}'],
    [{ cron: '*/5 0 3 * * *' }, '{"cron":"*/5 0 3 * * *","timezone":"UTC"}'],
    [{ cron: '0 3 * * *', timezone: 'Asia/Kathmandu' }, '{"cron":"0 3 * * *","timezone":"Asia/Kathmandu"}'],
    [{ every: '15m' }, '{"every":900000}'],
    [{ every: 900_000, cron: undefined }, '{"every":900000}'],
    [{ at: new Date('2026-06-01T12:00:00+02:00') }, '{"at":"2026-06-01T10:00:00.000Z"}'],
  ])('ruleFromOptions(%j) has the text %s, which ruleFromText reads', (given, text) => {
    const rule = ruleFromOptions('the test', given)
    expect(rule.text).toBe(text)
    const again = ruleFromText(text)
    expect(again.text).toBe(text)
    expect(again.next(at('2026-02-01T00:00Z'))).toEqual(rule.next(at('2026-02-01T00:00Z')))
  })

  test.each([
    [
      '{}',
      'Expected the text of a rule, got "{}" (string): Expected exactly one of `cron`, `every` and `at` for a rule',
    ],
    ['0 3 * * *', 'Expected the text of a rule, got "0 3 * * *" (string): Unexpected'],
    ['null', 'got "null" (string): Expected the options of a rule to be an object, got null'],
    ['{"at":"never"}', 'Expected at to be a Date in the years 1000 to 9999, got an object (Date)'],
    ['{"sun":"rise"}', 'a rule has no option "sun"'],
  ])('ruleFromText refuses %s', (text, message) => {
    const complaint = refused(() => ruleFromText(text))
    expect(complaint.message).toContain(message)
    expect(complaint.hint).toContain('A newer version of Holdfast may have written the rule')
  })
})

function refused(call: () => unknown): UsageError {
  try {
    call()
  } catch (error) {
    if (error instanceof UsageError) return error
    throw error
  }
  throw new Error('The rule was not refused')
}

describe('an invalid rule', () => {
  test.each<[unknown, string, string?]>([
    [{}, 'Expected exactly one of `cron`, `every` and `at` for the test, got none', "{ cron: '0 3 * * *' }"],
    [{ cron: '@daily', every: '5m' }, 'one of `cron`, `every` and `at` for the test, got cron and every'],
    [{ corn: '@daily' }, 'the test has no option "corn": did you mean "cron"?'],
    [
      { every: '5m', timezone: 'UTC' },
      'Expected timezone only together with cron, got timezone with every',
      'Remove timezone',
    ],
    [{ every: '500ms' }, 'Expected every to be a duration of at least 1s and at most 365d, got "500ms" (string)'],
    [{ every: 1_000.5 }, 'Expected `every` to be a whole number of milliseconds, got 1000.5'],
    [{ at: '2026-01-01' }, 'Expected at to be a Date in the years 1000 to 9999, got "2026-01-01" (string)'],
    [{ at: new Date('never') }, 'Expected at to be a Date'],
    [{ cron: 5 }, 'Expected cron to be a non-empty string, got 5 (number)'],
    [{ cron: '0 0 * *' }, 'Expected cron to have five fields'],
    [{ cron: '* * * * * * 2027' }, 'or six fields with the seconds first', 'Remove the year'],
    [{ cron: '2027-01-01T00:00:00' }, 'Expected cron to have five fields'],
    [{ cron: '@dayly' }, 'Expected cron to be a nickname (@yearly,', 'Did you mean "@daily"?'],
    [{ cron: '@every 5m' }, 'Expected cron to be a nickname', "every: '5m'"],
    [{ cron: '@reboot' }, 'Expected cron to be a nickname', 'does not need a schedule'],
    [{ cron: '@daily 0' }, 'Expected cron to be a nickname'],
    [{ cron: '60 * * * *' }, 'Expected the minute field of cron to be 0 to 59, such as'],
    [{ cron: '60 0 * * * *' }, 'Expected the second field of cron to be 0 to 59'],
    [{ cron: '0 24 * * *' }, 'Expected the hour field of cron to be 0 to 23'],
    [{ cron: '0 22-3 * * *' }, 'got "22-3" (string) in "0 22-3 * * *" (string)', 'wraps around, such as "22-23,0-3"'],
    [{ cron: '5/15 * * * *' }, 'Expected the minute field of cron', 'Use "*/15", or write a range before the slash.'],
    [{ cron: '0 0 32 * *' }, 'Expected the day of the month field of cron to be 1 to 31, "L" for the last'],
    [{ cron: '0 0 1-5W * *' }, 'Expected the day of the month field of cron'],
    [{ cron: '0 0 L-3 * *' }, 'Expected the day of the month field of cron'],
    [{ cron: '0 0 * 13 *' }, 'Expected the month field of cron to be 1 to 12 or JAN to DEC'],
    [{ cron: '0 0 * * 8' }, 'Expected the day of the week field of cron to be 0 to 7 or SUN to SAT'],
    [{ cron: '0 0 * * FRY' }, 'got "FRY" (string)'],
    [{ cron: '0 0 * * 1#6' }, 'Expected the day of the week field of cron'],
    [{ cron: '0x5 * * * *' }, 'Expected the minute field of cron'],
    [{ cron: '1,,2 * * * *' }, 'Expected the minute field of cron'],
    [{ cron: '*/0 * * * *' }, 'Expected the minute field of cron'],
    [
      { cron: '0 0 30 2 *' },
      'Expected cron to match at least one date, got "0 0 30 2 *"',
      'The schedule would never tick',
    ],
    [{ cron: '0 0 31 4,6,9,11 *' }, 'Expected cron to match at least one date'],
    [{ cron: '0 0 1 * +MON#2' }, 'Expected cron to match at least one date'],
    [{ cron: '@daily', timezone: 'Europe/Lodnon' }, 'Expected timezone to be an IANA time zone', '"Europe/London"?'],
    [{ cron: '@daily', timezone: 'europe/london' }, 'got "europe/london" (string)', 'Did you mean "Europe/London"?'],
    [{ cron: '@daily', timezone: 'utc' }, 'got "utc" (string)', 'Did you mean "UTC"?'],
    [{ cron: '@daily', timezone: '+02:00' }, 'Expected timezone to be an IANA time zone', 'the name of a place'],
    [{ cron: '@daily', timezone: 'PST' }, 'Expected timezone to be an IANA time zone'],
    [{ cron: '@daily', timezone: 'Nowhere/Land' }, 'Expected timezone to be an IANA time zone'],
  ])('ruleFromOptions refuses %j', (given, message, hint) => {
    const complaint = refused(() => ruleFromOptions('the test', given as RuleOptions))
    expect(complaint.message).toContain(message)
    if (hint) expect(complaint.hint).toContain(hint)
  })
})

describe('the clock and the time zone of the machine', () => {
  const zone = process.env.TZ
  afterEach(() => {
    vi.useRealTimers()
    if (zone === undefined) delete process.env.TZ
    else process.env.TZ = zone
  })

  test('the ticks of a rule do not depend on the clock or the time zone of the machine', () => {
    const all = () =>
      ['30 2 * * *', '*/20 1-3 * * *', '0 0 L * *', '0 12 * * MON#1'].flatMap((expression) => {
        const rule = cron(expression, 'America/New_York')
        return [
          ...ticks(rule, '2026-03-07T00:00Z', 12),
          ...ticks(rule, '2026-10-31T00:00Z', 12),
          rule.previous(at('2026-03-08T12:00Z')),
          rule.count(at('2026-01-01T00:00Z'), at('2027-01-01T00:00Z')),
          rule.text,
        ]
      })
    process.env.TZ = 'UTC'
    const inUtc = all()
    process.env.TZ = 'Australia/Lord_Howe'
    vi.useFakeTimers({ now: new Date('1999-12-31T23:59:59Z') })
    expect([new Date().getFullYear(), new Date(0).getHours()]).toEqual([2000, 10])
    expect(all()).toEqual(inUtc)
  })
})
