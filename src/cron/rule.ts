/**
 * The rules by which schedules tick. A rule is a pure function of its text: it reads no clock and no zone of the machine, so
 * that every instance of a fleet computes the same ticks.
 *
 * `every` ticks at whole multiples of its interval since the epoch. `at` ticks once. `cron` ticks at local times of a zone,
 * and where the clocks of that zone change it does as Vixie cron does:
 *
 * | the expression names                              | a local time that is skipped             | one that comes twice |
 * | ------------------------------------------------- | ---------------------------------------- | -------------------- |
 * | fixed times: `30 2 * * *`, `0 9,17 * * *`         | ticks once, when the clocks have changed | ticks the first time |
 * | a rhythm, by `*` or a step: `0 * * * *`, see below | does not tick                            | ticks both times     |
 *
 * A rhythm has a `*` or a step in its seconds, minutes or hours. So one run a day stays one run a day, and every ten minutes
 * stays every ten minutes. Skipped times that end with the same change are one tick. When a whole day is skipped, there was no
 * such day, and its times do not tick.
 *
 * The parser is croner's. Finding and counting are our own, because a ledger of missed ticks counts the seconds of a week: in
 * milliseconds here, in minutes by asking croner for one after the other. The tests hold both against each other.
 */
import {
  type Duration,
  describe,
  duration,
  formatDuration,
  messageOf,
  type OptionRule,
  parseDuration,
  readOptions,
  suggest,
  text,
  UsageError,
} from '../base/index.js'
import type { Calendar } from './calendar.js'
import { readCron } from './expression.js'
import { isZone, type OffsetPeriod, type Zone, zoneNames, zoneOf } from './zone.js'

/** How a rule is given: exactly one of `cron`, `every` and `at`. */
export interface RuleOptions {
  /** Five fields (minute, hour, day of the month, month, day of the week), six with seconds in front, or a nickname. */
  cron?: string | undefined
  /**
   * A fixed interval of at least 1 s, as a duration or in milliseconds. It ticks at whole multiples since 1970-01-01T00:00:00Z,
   * whenever it was added.
   */
  every?: Duration | undefined
  /** One point in time, once. */
  at?: Date | undefined
  /** For `cron`: time zone of the local time, such as `Europe/London`. Default `UTC`. */
  timezone?: string | undefined
}

/** When a schedule ticks. */
export interface TickRule {
  /** The one way to write this rule down: two rules are the same when their texts are. `ruleFromText` reads it back. */
  readonly text: string
  /** The first tick after this moment, never at it. */
  next(after: Date): Date | null
  /** The last tick before this moment, never at it. */
  previous(before: Date): Date | null
  /** How many ticks there are after `from`, up to and including `to`. Counts a year of seconds in milliseconds. */
  count(from: Date, to: Date): number
  /** The latest ticks after `from`, up to and including `to`: at most so many, the oldest first. */
  between(from: Date, to: Date, max: number): Date[]
  /** A tick as the clocks of the rule's zone show it. */
  local(tick: Date): LocalTick
}

export interface LocalTick {
  /** Such as `2026-03-29 02:00:00`. */
  readonly time: string
  /** Local time minus UTC, such as `+01:00`. */
  readonly offset: string
  /** What a change of the clocks does to this tick, for people to read. */
  readonly note: string | null
}

const day = 86_400
const maxEveryMs = 365 * day * 1_000
/** Outside of these there are no ticks: the calendar of the years before is another one, and dates have four digits. */
const minSecond = Date.UTC(1000, 0) / 1_000
const maxSecond = Date.UTC(10_000, 0) / 1_000

const dateRule: OptionRule<Date> = {
  expected: 'a Date of the years 1000 to 9999',
  read: (given) => (given instanceof Date && isInRange(given.getTime() / 1_000) ? given : undefined),
}

const optionRules = { cron: text, every: duration(1_000, maxEveryMs), at: dateRule, timezone: text }
const kinds = ['cron', 'every', 'at'] as const

/**
 * Reads a rule as people give it; `where` is the call that takes it, for complaints.
 *
 * @example
 * const rule = ruleFromOptions('schedules.add', { cron: '0 3 * * *', timezone: 'Europe/London' })
 * rule.next(new Date('2026-07-01T00:00:00Z')) // 2026-07-01T02:00:00Z
 */
export function ruleFromOptions(where: string, rule: RuleOptions): TickRule {
  const { cron, every, at, timezone } = readOptions(where, rule, optionRules)
  const kindsGiven = kinds.filter((kind) => rule?.[kind] !== undefined)
  if (kindsGiven.length !== 1) {
    const got = kindsGiven.length === 0 ? 'none' : kindsGiven.join(' and ')
    throw new UsageError(
      `Expected ${where} to be given one of cron, every and at, got ${got}`,
      "Say when it ticks: { cron: '0 3 * * *' }, { every: '15m' } or { at: new Date(…) }.",
    )
  }
  if (timezone !== undefined && cron === undefined) {
    throw new UsageError(
      `Expected timezone only together with cron, got it with ${kindsGiven[0]}`,
      'An interval and a moment are the same in every zone: leave it out.',
    )
  }
  if (every !== undefined) return new IntervalRule(checkWholeMs(every))
  if (at !== undefined) return new SingleTickRule(at)
  return new CronRule(cron!, readZone(timezone ?? 'UTC'))
}

/**
 * The rule that was written down as this text.
 *
 * @example
 * const rule = ruleFromText(ruleFromOptions('schedules.add', { every: '15m' }).text)
 */
export function ruleFromText(text: string): TickRule {
  try {
    const rule = JSON.parse(text)
    return ruleFromOptions('a rule', typeof rule?.at === 'string' ? { ...rule, at: new Date(rule.at) } : rule)
  } catch (error) {
    throw new UsageError(
      `Expected the text of a rule, got ${describe(text)}: ${messageOf(error)}`,
      'A newer Holdfast may have written it: bring all instances up to date.',
    )
  }
}

/**
 * A rule as people read it: `0 3 * * * Europe/London`, `every 15m`, `at 2030-01-31T18:00:00.000Z`. One that this version cannot
 * read, because a newer one has written it, is null.
 *
 * @example
 * describeRule({ every: 900_000 }) // every 15m
 */
export function describeRule(rule: RuleOptions | null): string {
  const { cron, every, at, timezone } = rule ?? {}
  if (cron !== undefined) return !timezone || timezone === 'UTC' ? cron : `${cron} ${timezone}`
  if (every !== undefined) return `every ${formatDuration(parseDuration(every)!)}`
  return at === undefined ? 'a rule of a newer version' : `at ${at.toISOString()}`
}

function checkWholeMs(every: number): number {
  if (Number.isInteger(every)) return every
  throw new UsageError(`Expected every to be whole milliseconds, got ${every}`)
}

function readZone(name: string): string {
  // One zone, one text: what differs in capitals alone would be another rule.
  if (isZone(name)) return name
  const meant = suggest(name, zoneNames())
  throw new UsageError(
    `Expected timezone to be an IANA time zone such as "Europe/London", or "UTC", got ${describe(name)}`,
    meant
      ? `Did you mean "${meant}"?`
      : 'A zone has the name of a place: an offset or an abbreviation does not say when its clocks change.',
  )
}

/** Ticks at whole multiples since the epoch. */
class IntervalRule implements TickRule {
  readonly text: string
  readonly #everyMs: number

  constructor(everyMs: number) {
    this.#everyMs = everyMs
    this.text = JSON.stringify({ every: everyMs })
  }

  next(after: Date): Date | null {
    return dateInRange((Math.floor(after.getTime() / this.#everyMs) + 1) * this.#everyMs)
  }

  previous(before: Date): Date | null {
    return dateInRange((Math.ceil(before.getTime() / this.#everyMs) - 1) * this.#everyMs)
  }

  count(from: Date, to: Date): number {
    const count = Math.floor(to.getTime() / this.#everyMs) - Math.floor(from.getTime() / this.#everyMs)
    return Math.max(0, count)
  }

  between(from: Date, to: Date, max: number): Date[] {
    return latestTicks(this, from, to, max)
  }

  local(tick: Date): LocalTick {
    return localInUtc(tick)
  }
}

/** Ticks once. */
class SingleTickRule implements TickRule {
  readonly text: string
  readonly #atMs: number

  constructor(at: Date) {
    this.#atMs = at.getTime()
    this.text = JSON.stringify({ at: at.toISOString() })
  }

  next(after: Date): Date | null {
    return after.getTime() < this.#atMs ? new Date(this.#atMs) : null
  }

  previous(before: Date): Date | null {
    return before.getTime() > this.#atMs ? new Date(this.#atMs) : null
  }

  count(from: Date, to: Date): number {
    return from.getTime() < this.#atMs && this.#atMs <= to.getTime() ? 1 : 0
  }

  between(from: Date, to: Date, max: number): Date[] {
    return latestTicks(this, from, to, max)
  }

  local(tick: Date): LocalTick {
    return localInUtc(tick)
  }
}

/** Ticks at local times of a zone. Inside, time is whole seconds since the epoch. */
class CronRule implements TickRule {
  readonly text: string
  readonly #calendar: Calendar
  readonly #zone: Zone

  constructor(cron: string, timezone: string) {
    const { text, calendar } = readCron(cron)
    this.#calendar = calendar
    this.#zone = zoneOf(timezone)
    this.text = JSON.stringify({ cron: text, timezone })
  }

  next(after: Date): Date | null {
    let from = Math.max(minSecond, toSeconds(after) + 1)
    while (from < maxSecond) {
      const number = Math.floor(from / day)
      for (const period of this.#zone.day(number)) {
        const tick = this.#firstIn(period, from)
        if (tick !== undefined) return new Date(tick * 1_000)
      }
      // To the day before the next date that fits: no zone is further from UTC than a day, and none skips more than one.
      const end = (number + 1) * day
      from = Math.max(end, this.#calendar.first(end - 2 * day) - day)
    }
    return null
  }

  previous(before: Date): Date | null {
    let to = Math.min(maxSecond, Math.ceil(before.getTime() / 1_000))
    while (to > minSecond) {
      const number = Math.floor((to - 1) / day)
      for (const period of this.#zone.day(number).toReversed()) {
        const tick = this.#lastIn(period, to)
        if (tick !== undefined) return new Date(tick * 1_000)
      }
      const begin = number * day
      to = Math.min(begin, this.#calendar.last(begin + 2 * day) + 2 * day)
    }
    return null
  }

  count(from: Date, to: Date): number {
    const first = Math.max(minSecond, toSeconds(from) + 1)
    const end = Math.min(maxSecond, toSeconds(to) + 1)
    let total = 0
    for (let number = Math.floor(first / day); number * day < end; number++) {
      for (const period of this.#zone.day(number)) total += this.#countIn(period, first, end)
    }
    return total
  }

  between(from: Date, to: Date, max: number): Date[] {
    return latestTicks(this, from, to, max)
  }

  local(tick: Date): LocalTick {
    const second = toSeconds(tick)
    const { offset } = this.#zone.at(second)
    return { time: formatLocal(second + offset), offset: formatOffset(offset), note: this.#note(second) }
  }

  #firstIn(period: OffsetPeriod, from: number): number | undefined {
    if (from >= period.to || this.#isSuppressed(period)) return undefined
    if (from <= period.from && this.#countSkipped(period) > 0) return period.from
    const tick = this.#calendar.first(Math.max(from, period.from) + period.offset) - period.offset
    return tick < period.to ? tick : undefined
  }

  #lastIn(period: OffsetPeriod, before: number): number | undefined {
    if (before <= period.from || this.#isSuppressed(period)) return undefined
    const tick = this.#calendar.last(Math.min(before, period.to) + period.offset) - period.offset
    if (tick >= period.from) return tick
    return this.#countSkipped(period) > 0 ? period.from : undefined
  }

  #countIn(period: OffsetPeriod, first: number, end: number): number {
    const from = Math.max(first, period.from)
    const to = Math.min(end, period.to)
    if (from >= to || this.#isSuppressed(period)) return 0
    const local = from + period.offset
    const hasSkipped =
      from === period.from && this.#countSkipped(period) > 0 && this.#calendar.count(local, local + 1) === 0
    return this.#calendar.count(local, to + period.offset) + (hasSkipped ? 1 : 0)
  }

  /** Fixed times that came already do not come again. */
  #isSuppressed(period: OffsetPeriod): boolean {
    return period.isRepeated && this.#calendar.hasFixedTimes
  }

  /** How many skipped times the first moment of a period stands in for: those of its own day, for a skipped day never was. */
  #countSkipped(period: OffsetPeriod): number {
    if (period.skipped === 0 || !this.#calendar.hasFixedTimes) return 0
    const local = period.from + period.offset
    return this.#calendar.count(Math.max(local - period.skipped, Math.floor(local / day) * day), local)
  }

  #note(second: number): string | null {
    const period = this.#zone.at(second)
    const local = second + period.offset
    if (period.isRepeated) return `second of two ${formatTimeOfDay(local)}`
    if (this.#isRepeatedLater(second, local)) return `first of two ${formatTimeOfDay(local)}`
    const skipped = this.#skippedPeriodBefore(second)
    if (!skipped) return null
    const hasSkipped = skipped.from === second && this.#countSkipped(skipped) > 0
    return `clocks forward, ${hasSkipped ? 'for' : 'no'} ${this.#describeSkipped(skipped)}`
  }

  #isRepeatedLater(second: number, local: number): boolean {
    const number = Math.floor(second / day)
    return [...this.#zone.day(number), ...this.#zone.day(number + 1)].some(
      ({ isRepeated, from, to, offset }) =>
        isRepeated && from > second && from + offset <= local && local < to + offset,
    )
  }

  /** The period since the tick before, if any, that begins by skipping times of this rule. */
  #skippedPeriodBefore(second: number): OffsetPeriod | undefined {
    const since = this.previous(new Date(second * 1_000))
    const first = since === null ? second : toSeconds(since) + 1
    for (let number = Math.floor(second / day); number >= Math.floor(first / day); number--) {
      const found = this.#zone
        .day(number)
        .find(
          ({ from, offset, skipped }) =>
            first <= from &&
            from <= second &&
            skipped > 0 &&
            this.#calendar.count(from + offset - skipped, from + offset) > 0,
        )
      if (found) return found
    }
    return undefined
  }

  #describeSkipped({ from, offset, skipped }: OffsetPeriod): string {
    const first = this.#calendar.first(from + offset - skipped)
    const last = this.#calendar.last(from + offset)
    if (skipped >= day) return formatLocal(first).slice(0, 10)
    return first === last ? formatTimeOfDay(first) : `${formatTimeOfDay(first)}–${formatTimeOfDay(last)}`
  }
}

function latestTicks(rule: TickRule, from: Date, to: Date, max: number): Date[] {
  const ticks: Date[] = []
  let tick = rule.previous(new Date(to.getTime() + 1))
  while (tick && tick > from && ticks.length < max) {
    ticks.push(tick)
    tick = rule.previous(tick)
  }
  return ticks.reverse()
}

function localInUtc(tick: Date): LocalTick {
  return { time: formatLocal(toSeconds(tick)), offset: formatOffset(0), note: null }
}

function toSeconds(moment: Date): number {
  return Math.floor(moment.getTime() / 1_000)
}

function isInRange(second: number): boolean {
  return minSecond <= second && second < maxSecond
}

function dateInRange(ms: number): Date | null {
  return isInRange(ms / 1_000) ? new Date(ms) : null
}

function formatLocal(local: number): string {
  return new Date(local * 1_000).toISOString().slice(0, 19).replace('T', ' ')
}

/** The time of day, with seconds only where there are any. */
function formatTimeOfDay(local: number): string {
  return formatLocal(local).slice(11).replace(/:00$/, '')
}

function formatOffset(offset: number): string {
  const size = new Date(Math.abs(offset) * 1_000).toISOString().slice(11, 19).replace(/:00$/, '')
  return `${offset < 0 ? '-' : '+'}${size}`
}
