/**
 * Implements the rules that determine when a schedule ticks. A rule's ticks depend only on the rule's text, not on the machine's clock or
 * time zone, so every instance in a fleet computes the same ticks.
 *
 * An `every` rule ticks at whole multiples of its interval since the Unix epoch. An `at` rule ticks once. A `cron` rule ticks at local
 * times in a time zone. When the clocks change, a `cron` rule behaves like Vixie cron:
 *
 * | expression                                       | skipped local time                 | repeated local time  |
 * | ------------------------------------------------ | ---------------------------------- | -------------------- |
 * | fixed times: `30 2 * * *`, `0 9,17 * * *`        | ticks once, after the clock change | ticks the first time |
 * | `*` or a step in seconds, minutes or hours       | does not tick                      | ticks both times     |
 *
 * So a daily rule still ticks once a day, and a rule for every ten minutes still ticks every ten minutes. All local times that one clock
 * change skips become a single tick. If a zone skips a whole day, there are no ticks for that day.
 *
 * Holdfast uses croner only as the parser. Holdfast searches and counts ticks itself, because it may have to count missed ticks over a
 * week, second by second. Holdfast needs milliseconds for this count, and croner needs minutes. The tests compare the results of both
 * implementations.
 */
import {
  type Duration,
  describe,
  duration,
  formatDuration,
  type Instant,
  messageOf,
  type OptionRule,
  parseInstant,
  readOptions,
  suggest,
  text,
  UsageError,
} from '../base/index.js'
import type { Calendar } from './calendar.js'
import { readCron } from './expression.js'
import { isZone, type OffsetPeriod, type Zone, zoneNames, zoneOf } from './zone.js'

/** A rule's options: exactly one of `cron`, `every` and `at`. */
export interface RuleOptions {
  /**
   * Cron expression with five fields (minute, hour, day of the month, month, day of the week), or six fields with the seconds first, or a
   * nickname such as `@daily`.
   */
  cron?: string | undefined
  /**
   * A fixed interval of at least 1 s, as a duration or in milliseconds. The schedule ticks at whole multiples of the interval since
   * 1970-01-01T00:00:00Z, regardless of the time when the schedule was added.
   */
  every?: Duration | undefined
  /** Time of the rule's only tick. */
  at?: Instant | undefined
  /** Time zone of a `cron` rule, such as `Europe/London`. Default: `UTC`. */
  timezone?: string | undefined
}

/** A rule as Holdfast has stored it: exactly one of `cron`, `every` and `at`. */
export interface ScheduleRule {
  /** Cron expression. */
  readonly cron?: string | undefined
  /** Interval in milliseconds. */
  readonly everyMs?: number | undefined
  /** Time of the rule's only tick. */
  readonly at?: Date | undefined
  /** Time zone of a `cron` rule. */
  readonly timezone?: string | undefined
}

/** Rule that determines when a schedule ticks. */
export interface TickRule {
  /** The rule's normalized text, which `ruleFromText` parses. Equal rules have equal texts. */
  readonly text: string
  /** Returns the first tick after this time (exclusive). */
  next(after: Date): Date | null
  /** Returns the last tick before this time (exclusive). */
  previous(before: Date): Date | null
  /** Counts the ticks after `from`, up to and including `to`. */
  count(from: Date, to: Date): number
  /** Returns the last `max` ticks after `from`, up to and including `to`, oldest first. */
  between(from: Date, to: Date, max: number): Date[]
  /** Converts a tick to local time in the rule's time zone. */
  local(tick: Date): LocalTick
}

export interface LocalTick {
  /** Local time, such as `2026-03-29 02:00:00`. */
  readonly time: string
  /** Local time minus UTC, such as `+01:00`. */
  readonly offset: string
  /** Readable description of a clock change that affects this tick, or null. */
  readonly note: string | null
}

const day = 86_400
const maxEveryMs = 365 * day * 1_000
/** Ticks exist only in the years 1000 to 9999, because these years have four digits. */
const minSecond = Date.UTC(1000, 0) / 1_000
const maxSecond = Date.UTC(10_000, 0) / 1_000

const dateRule: OptionRule<Date> = {
  expected: 'a Date in the years 1000 to 9999',
  read(given) {
    const at = parseInstant(given)
    return at && isInRange(at.getTime() / 1_000) ? at : undefined
  },
}

const optionRules = { cron: text, every: duration(1_000, maxEveryMs), at: dateRule, timezone: text }
const kinds = ['cron', 'every', 'at'] as const

/**
 * Parses a rule's options. `where` names the call in error messages.
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
      `Expected exactly one of \`cron\`, \`every\` and \`at\` for ${where}, got ${got}`,
      "For example, { cron: '0 3 * * *' }, { every: '15m' } or { at: new Date(…) }.",
    )
  }
  if (timezone !== undefined && cron === undefined) {
    throw new UsageError(
      `Expected timezone only together with cron, got timezone with ${kindsGiven[0]}`,
      'Remove timezone. An interval or a point in time is the same in every time zone.',
    )
  }
  if (every !== undefined) return new IntervalRule(checkWholeMs(every))
  if (at !== undefined) return new SingleTickRule(at)
  return new CronRule(cron!, readZone(timezone ?? 'UTC'))
}

/**
 * Parses a rule's text.
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
      'A newer version of Holdfast may have written the rule. Upgrade all instances.',
    )
  }
}

/**
 * Parses the text of a rule as values to show. The text must be from `TickRule.text`.
 *
 * @example
 * readScheduleRule(ruleFromOptions('schedules.add', { every: '15m' }).text) // { everyMs: 900_000 }
 */
export function readScheduleRule(text: string): ScheduleRule {
  const { at, every, ...rule } = JSON.parse(text) as Pick<ScheduleRule, 'cron' | 'timezone'> & {
    readonly at?: string
    readonly every?: number
  }
  if (every !== undefined) return { everyMs: every }
  return at === undefined ? rule : { at: new Date(at) }
}

/**
 * Returns a readable description of a rule, such as `0 3 * * * Europe/London`, `every 15m` or `at 2030-01-31T18:00:00.000Z`. Null is
 * a rule that a newer version of Holdfast wrote and this version cannot parse.
 *
 * @example
 * describeRule({ everyMs: 900_000 }) // every 15m
 */
export function describeRule(rule: ScheduleRule | null): string {
  const { cron, everyMs, at, timezone } = rule ?? {}
  if (cron !== undefined) return !timezone || timezone === 'UTC' ? cron : `${cron} ${timezone}`
  if (everyMs !== undefined) return `every ${formatDuration(everyMs)}`
  return at === undefined ? 'a rule from a newer version' : `at ${at.toISOString()}`
}

function checkWholeMs(every: number): number {
  if (Number.isInteger(every)) return every
  throw new UsageError(`Expected \`every\` to be a whole number of milliseconds, got ${every}`)
}

function readZone(name: string): string {
  // Accepts only the exact spelling, because the same zone with different capitals would be a different rule.
  if (isZone(name)) return name
  const meant = suggest(name, zoneNames())
  throw new UsageError(
    `Expected timezone to be an IANA time zone such as "Europe/London", or "UTC", got ${describe(name)}`,
    meant
      ? `Did you mean "${meant}"?`
      : 'Use the name of a place. An offset or an abbreviation does not define when the clocks change.',
  )
}

/** Members that are common to all kinds of rules. */
abstract class Rule implements TickRule {
  abstract readonly text: string
  abstract next(after: Date): Date | null
  abstract previous(before: Date): Date | null
  abstract count(from: Date, to: Date): number

  between(from: Date, to: Date, max: number): Date[] {
    const ticks: Date[] = []
    let tick = this.previous(new Date(to.getTime() + 1))
    while (tick && tick > from && ticks.length < max) {
      ticks.push(tick)
      tick = this.previous(tick)
    }
    return ticks.reverse()
  }

  local(tick: Date): LocalTick {
    return { time: formatLocal(toSeconds(tick)), offset: formatOffset(0), note: null }
  }
}

/** Ticks at whole multiples of an interval since the Unix epoch. */
class IntervalRule extends Rule {
  readonly text: string
  readonly #everyMs: number

  constructor(everyMs: number) {
    super()
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
}

/** Ticks once. */
class SingleTickRule extends Rule {
  readonly text: string
  readonly #atMs: number

  constructor(at: Date) {
    super()
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
}

/** Ticks at local times in a time zone. Private methods use whole seconds since the epoch. */
class CronRule extends Rule {
  readonly text: string
  readonly #calendar: Calendar
  readonly #zone: Zone

  constructor(cron: string, timezone: string) {
    super()
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
      // Skips to the day before the next matching date. No tick is missed, because no zone differs from UTC by more than a day, and no zone
      // skips more than a day.
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

  override local(tick: Date): LocalTick {
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

  /** Whether the rule has already ticked at the period's local times, before the clocks went back. */
  #isSuppressed(period: OffsetPeriod): boolean {
    return period.isRepeated && this.#calendar.hasFixedTimes
  }

  /**
   * Counts the skipped local times that a tick in the period's first second replaces. Ignores times on an earlier day, because a day that a
   * zone skips entirely has no ticks.
   */
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
    return `clock change: ${hasSkipped ? 'replaces' : 'skips'} ${this.#describeSkipped(skipped)}`
  }

  #isRepeatedLater(second: number, local: number): boolean {
    const number = Math.floor(second / day)
    return [...this.#zone.day(number), ...this.#zone.day(number + 1)].some(
      ({ isRepeated, from, to, offset }) =>
        isRepeated && from > second && from + offset <= local && local < to + offset,
    )
  }

  /**
   * Returns a period that began after the previous tick and whose clock change skipped local times that the rule matches. Returns undefined
   * if there is no such period.
   */
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

/** Formats the time of day, with seconds only if they are not 0. */
function formatTimeOfDay(local: number): string {
  return formatLocal(local).slice(11).replace(/:00$/, '')
}

function formatOffset(offset: number): string {
  const size = new Date(Math.abs(offset) * 1_000).toISOString().slice(11, 19).replace(/:00$/, '')
  return `${offset < 0 ? '-' : '+'}${size}`
}
