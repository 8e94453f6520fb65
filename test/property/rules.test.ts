// Random rules in random time zones and years, compared with three independent implementations: croner's search, cron-parser, and a scan of every
// minute that the clocks of the zone show. The scan also counts the ticks.
import { CronExpressionParser } from 'cron-parser'
import { Cron } from 'croner'
import { expect, test } from 'vitest'
import { ruleFromOptions, type TickRule } from '../../src/cron/index.js'
import { randomFrom } from '../setup/random.js'
import { seedOf } from './seed.js'

/** Number of rules, from HOLDFAST_RULES. */
const many = Number(process.env.HOLDFAST_RULES ?? 200)
const patienceMs = 60_000 + many * 20
const seed = seedOf('rules')
const random = randomFrom(seed)

const dayMs = 86_400_000
const notable = [
  'Europe/London',
  'America/New_York',
  'Australia/Lord_Howe',
  'America/Sao_Paulo',
  'Asia/Kathmandu',
  'Pacific/Apia',
  'Africa/Casablanca',
  'America/St_Johns',
  'Asia/Gaza',
  'UTC',
]
const zones = [...notable, ...Intl.supportedValuesOf('timeZone')]

const below = (limit: number) => Math.floor(random() * limit)
const pick = <T>(from: readonly T[]): T => from[below(from.length)]!
const randomZone = () => (random() < 0.5 ? pick(notable) : pick(zones))

/** Field of a cron expression and its values, calculated without a parser. */
interface Field {
  text: string
  values: Set<number>
  /** Whether the field has a `*` or a step. */
  loose: boolean
}

function range(from: number, last: number, step = 1): number[] {
  const values: number[] = []
  for (let value = from; value <= last; value += step) values.push(value)
  return values
}

function randomField(least: number, most: number, stars: number): Field {
  const value = () => least + below(most - least + 1)
  const span = () => {
    const [from, last] = [value(), value()].sort((a, b) => a - b) as [number, number]
    return { from, last }
  }
  if (random() < stars) return { text: '*', values: new Set(range(least, most)), loose: true }
  const step = 1 + below(Math.ceil((most - least) / 2))
  switch (below(5)) {
    case 0: {
      return { text: `*/${step}`, values: new Set(range(least, most, step)), loose: true }
    }
    case 1: {
      const { from, last } = span()
      return { text: `${from}-${last}/${step}`, values: new Set(range(from, last, step)), loose: true }
    }
    case 2: {
      const { from, last } = span()
      return { text: `${from}-${last}`, values: new Set(range(from, last)), loose: false }
    }
    case 3: {
      const values = [value(), value(), value()]
      return { text: values.join(','), values: new Set(values), loose: false }
    }
    default: {
      const one = value()
      return { text: String(one), values: new Set([one]), loose: false }
    }
  }
}

/** Local time of a minute. */
interface LocalTime {
  minute: number
  hour: number
  date: number
  month: number
  weekday: number
}

function localTimeOf(localMinute: number): LocalTime {
  const at = new Date(localMinute * 60_000)
  return {
    minute: at.getUTCMinutes(),
    hour: at.getUTCHours(),
    date: at.getUTCDate(),
    month: at.getUTCMonth() + 1,
    weekday: at.getUTCDay(),
  }
}

interface RandomRule {
  cron: string
  timezone: string
  /** Whether seconds, minutes and hours have no `*` and no step, as the documentation defines a fixed time. */
  fixed: boolean
  seconds: number[]
  matches(minute: LocalTime): boolean
}

function randomRule(timezone: string): RandomRule {
  const withSeconds = random() < 0.2
  const second = withSeconds ? randomField(0, 59, 0.2) : { text: '0', values: new Set([0]), loose: false }
  const minute = randomField(0, 59, 0.2)
  // Clocks change in the first hours of the day.
  const hour = random() < 0.5 ? randomField(0, 3, 0) : randomField(0, 23, 0.3)
  // A step after a star covers the whole day, not only the hours 0 to 3.
  if (hour.text.startsWith('*/')) hour.values = new Set(range(0, 23, Number(hour.text.slice(2))))
  const date = randomField(1, 31, 0.7)
  const month = randomField(1, 12, 0.8)
  const weekday = randomField(0, 6, 0.7)
  const eitherDay = date.text !== '*' && weekday.text !== '*'
  const fields = [...(withSeconds ? [second] : []), minute, hour, date, month, weekday]
  return {
    cron: fields.map(({ text }) => text).join(' '),
    timezone,
    fixed: !second.loose && !minute.loose && !hour.loose,
    seconds: [...second.values].sort((a, b) => a - b),
    matches(at) {
      if (!minute.values.has(at.minute) || !hour.values.has(at.hour) || !month.values.has(at.month)) return false
      const byDate = date.values.has(at.date)
      const byWeekday = weekday.values.has(at.weekday)
      return eitherDay ? byDate || byWeekday : byDate && byWeekday
    },
  }
}

function read({ cron, timezone }: { cron: string; timezone: string }): TickRule | undefined {
  try {
    return ruleFromOptions('the test', { cron, timezone })
  } catch (error) {
    if (String(error).includes('to match at least one date')) return undefined
    throw error
  }
}

/** The clocks of a zone over some days, read at every minute of UTC. */
class Clocks {
  readonly #minutes: { begin: number; shows: LocalTime; again: boolean; skipped: LocalTime[] }[] = []

  constructor(timezone: string, from: number, last: number) {
    const format = new Intl.DateTimeFormat('en-GB', {
      timeZone: timezone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
    })
    const seen = new Set<number>()
    let before: number | undefined
    for (let begin = from; begin < last; begin += 60_000) {
      const [, date, month, year, hour, minute] = /(\d+)\/(\d+)\/(\d+), (\d+):(\d+)/
        .exec(format.format(begin))!
        .map(Number)
      const local = Date.UTC(year!, month! - 1, date!, hour!, minute!) / 60_000
      const midnight = Math.floor(local / 1_440) * 1_440
      // The ticks of a skipped day are dropped. The ticks of a skipped hour of the same day run after the gap.
      const skipped = before === undefined ? [] : range(Math.max(before + 1, midnight), local - 1).map(localTimeOf)
      this.#minutes.push({ begin, shows: localTimeOf(local), again: seen.has(local), skipped })
      seen.add(local)
      before = local
    }
  }

  /** Returns the ticks of the rule according to the documentation, minute by minute. */
  ticks(rule: RandomRule): number[] {
    const ticks: number[] = []
    for (const { begin, shows, again, skipped } of this.#minutes) {
      const named = rule.matches(shows) && !(rule.fixed && again)
      const replacesSkipped = rule.fixed && skipped.some((minute) => rule.matches(minute))
      if (replacesSkipped && !(named && rule.seconds[0] === 0)) ticks.push(begin)
      if (named) for (const second of rule.seconds) ticks.push(begin + second * 1_000)
    }
    return ticks
  }
}

const offsets = new Map<string, Intl.DateTimeFormat>()
function offsetIn(timezone: string, ms: number): string {
  const format =
    offsets.get(timezone) ?? new Intl.DateTimeFormat('en-GB', { timeZone: timezone, timeZoneName: 'longOffset' })
  offsets.set(timezone, format)
  return format.format(ms).slice(12)
}

/** Returns a moment, usually within three days of a change of the clocks. */
function randomMoment(timezone: string): number {
  const begin = Date.UTC(1974 + below(63), below(12), 1 + below(28))
  if (random() < 0.2) return begin
  for (let at = begin; at < begin + 400 * dayMs; at += 2 * dayMs) {
    if (offsetIn(timezone, at) !== offsetIn(timezone, at + 2 * dayMs)) return at + below(48) * 3_600_000
  }
  return begin
}

const dates = (ticks: (number | Date)[]) => ticks.map((tick) => new Date(tick).toISOString()).join(' ')

test(
  `${many} rules return and count the ticks that a scan of all minutes finds`,
  () => {
    for (let done = 0; done < many; ) {
      const timezone = randomZone()
      const middle = Math.floor(randomMoment(timezone) / dayMs) * dayMs
      // The scan starts two days earlier, to know which local times have occurred before.
      const clocks = new Clocks(timezone, middle - 3 * dayMs, middle + 3 * dayMs)
      const [from, last] = [new Date(middle - dayMs), new Date(middle + 3 * dayMs - 1)]
      for (let turn = 0; turn < 50; turn++, done++) {
        const drawn = randomRule(timezone)
        const rule = read(drawn)
        if (!rule) continue
        const expected = clocks.ticks(drawn).filter((tick) => tick > from.getTime())
        const what = `${drawn.cron} in ${timezone} after ${from.toISOString()}`
        expect(rule.count(from, last), what).toBe(expected.length)
        const most = 1 + below(200)
        const latest = rule.between(from, last, most)
        expect(dates(latest), what).toEqual(dates(expected.slice(-most)))
        let tick: Date | null = from
        for (const one of expected.slice(0, 200)) {
          tick = rule.next(tick!)
          if (tick?.getTime() !== one) expect(tick, what).toEqual(new Date(one))
        }
        const part = new Date(from.getTime() + below(last.getTime() - from.getTime()))
        expect(rule.count(from, part) + rule.count(part, last), what).toBe(expected.length)
      }
    }
  },
  patienceMs,
)

/** Returns an expression with features that only some parsers support. */
function randomSpecial(): string {
  const time = pick(['30 2', '0 0', '*/20 1', '15 1,2', '0 3'])
  const names = ['MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT', 'SUN']
  const dates = pick(['L', 'LW', '1W', `${1 + below(31)}W`, '1,L', '15', '*'])
  const weekdays = pick(['*', `${pick(names)}#${1 + below(5)}`, `${pick(names)}#L`, '5L', `+${pick(names)}`, 'MON-FRI'])
  const months = pick(['*', '*', 'JAN,JUL', '2', '*/3'])
  return `${time} ${dates} ${months} ${weekdays}`
}

test(
  `${many} rules return the same ticks as croner`,
  () => {
    for (let done = 0; done < many; done++) {
      const timezone = randomZone()
      const cron = random() < 0.4 ? randomSpecial() : randomRule(timezone).cron
      const rule = read({ cron, timezone })
      if (!rule) continue
      const other = new Cron(cron, { timezone, paused: true, mode: '5-or-6-parts', fixedTimeRule: 'no-wildcard' })
      const from = new Date(randomMoment(timezone) + below(dayMs))
      let tick: Date | null = from
      for (const expected of other.nextRuns(3, from)) {
        tick = rule.next(tick!)
        expect(tick, `${cron} in ${timezone} after ${from.toISOString()}`).toEqual(expected)
        expect(rule.previous(new Date(expected.getTime() + 1))).toEqual(expected)
      }
    }
  },
  patienceMs,
)

/** Returns the next tick according to cron-parser, or undefined if cron-parser does not support the rule. */
function nextByCronParser(cron: string, timezone: string, from: Date): Date | undefined {
  try {
    return CronExpressionParser.parse(cron, { tz: timezone, currentDate: from }).next().toDate()
  } catch (error) {
    // cron-parser rejects duplicate values in a list, and fails if the next date is years away.
    if (/duplicate values|loop limit/.test(String(error))) return undefined
    throw error
  }
}

test(
  `${many} rules return the same ticks as cron-parser, except near changes of the clocks`,
  () => {
    let compared = 0
    for (let done = 0; done < many; done++) {
      const timezone = randomZone()
      const { cron } = randomRule(timezone)
      const rule = read({ cron, timezone })
      const from = new Date(randomMoment(timezone) + below(dayMs))
      const expected = rule && nextByCronParser(cron, timezone, from)
      if (!expected) continue
      compared++
      const tick = rule.next(from)!
      const first = Math.min(tick.getTime(), expected.getTime())
      const changes = offsetIn(timezone, first - dayMs) !== offsetIn(timezone, first + dayMs)
      if (!changes) expect(tick, `${cron} in ${timezone} after ${from.toISOString()}`).toEqual(expected)
    }
    expect(compared).toBeGreaterThan(many * 0.8)
  },
  patienceMs,
)
