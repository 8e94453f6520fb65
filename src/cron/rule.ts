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
  parseDuration,
  type Rule,
  readOptions,
  suggest,
  text,
  UsageError,
} from '../base/index.js'
import type { Calendar } from './calendar.js'
import { readCron } from './expression.js'
import { isZone, type Stretch, type Zone, zoneNames, zoneOf } from './zone.js'

/** How a rule is given: exactly one of `cron`, `every` and `at`. */
export interface GivenRule {
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
  /** The one way to write this rule down: two rules are the same when their texts are. `ruleOf` reads it back. */
  readonly text: string
  /** The first tick after this moment, never at it. */
  next(after: Date): Date | null
  /** The last tick before this moment, never at it. */
  previous(before: Date): Date | null
  /** How many ticks there are after `from`, up to and including `upto`. Counts a year of seconds in milliseconds. */
  count(from: Date, upto: Date): number
  /** The latest ticks after `from`, up to and including `upto`: at most so many, the oldest first. */
  between(from: Date, upto: Date, most: number): Date[]
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
const longestEveryMs = 365 * day * 1_000
/** Outside of these there are no ticks: the calendar of the years before is another one, and dates have four digits. */
const earliest = Date.UTC(1000, 0) / 1_000
const latest = Date.UTC(10_000, 0) / 1_000

const date: Rule<Date> = {
  expected: 'a Date of the years 1000 to 9999',
  read: (given) => (given instanceof Date && isWithin(given.getTime() / 1_000) ? given : undefined),
}

const given = { cron: text, every: duration(1_000, longestEveryMs), at: date, timezone: text }
const kinds = ['cron', 'every', 'at'] as const

/**
 * Reads a rule as people give it; `where` is the call that takes it, for complaints.
 *
 * @example
 * const rule = readRule('schedules.add', { cron: '0 3 * * *', timezone: 'Europe/London' })
 * rule.next(new Date('2026-07-01T00:00:00Z')) // 2026-07-01T02:00:00Z
 */
export function readRule(where: string, rule: GivenRule): TickRule {
  const { cron, every, at, timezone } = readOptions(where, rule, given)
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
  if (every !== undefined) return new IntervalRule(wholeMs(every))
  if (at !== undefined) return new MomentRule(at)
  return new CronRule(cron!, readZone(timezone ?? 'UTC'))
}

/**
 * The rule that was written down as this text.
 *
 * @example
 * const rule = ruleOf(readRule('schedules.add', { every: '15m' }).text)
 */
export function ruleOf(text: string): TickRule {
  try {
    const rule = JSON.parse(text)
    return readRule('a rule', typeof rule?.at === 'string' ? { ...rule, at: new Date(rule.at) } : rule)
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
 * ruleInWords({ every: 900_000 }) // every 15m
 */
export function ruleInWords(rule: GivenRule | null): string {
  const { cron, every, at, timezone } = rule ?? {}
  if (cron !== undefined) return !timezone || timezone === 'UTC' ? cron : `${cron} ${timezone}`
  if (every !== undefined) return `every ${formatDuration(parseDuration(every)!)}`
  return at === undefined ? 'a rule of a newer version' : `at ${at.toISOString()}`
}

function wholeMs(every: number): number {
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
    return within((Math.floor(after.getTime() / this.#everyMs) + 1) * this.#everyMs)
  }

  previous(before: Date): Date | null {
    return within((Math.ceil(before.getTime() / this.#everyMs) - 1) * this.#everyMs)
  }

  count(from: Date, upto: Date): number {
    const many = Math.floor(upto.getTime() / this.#everyMs) - Math.floor(from.getTime() / this.#everyMs)
    return Math.max(0, many)
  }

  between(from: Date, upto: Date, most: number): Date[] {
    return latestOf(this, from, upto, most)
  }

  local(tick: Date): LocalTick {
    return inUtc(tick)
  }
}

/** Ticks once. */
class MomentRule implements TickRule {
  readonly text: string
  readonly #at: number

  constructor(at: Date) {
    this.#at = at.getTime()
    this.text = JSON.stringify({ at: at.toISOString() })
  }

  next(after: Date): Date | null {
    return after.getTime() < this.#at ? new Date(this.#at) : null
  }

  previous(before: Date): Date | null {
    return before.getTime() > this.#at ? new Date(this.#at) : null
  }

  count(from: Date, upto: Date): number {
    return from.getTime() < this.#at && this.#at <= upto.getTime() ? 1 : 0
  }

  between(from: Date, upto: Date, most: number): Date[] {
    return latestOf(this, from, upto, most)
  }

  local(tick: Date): LocalTick {
    return inUtc(tick)
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
    let from = Math.max(earliest, secondOf(after) + 1)
    while (from < latest) {
      const number = Math.floor(from / day)
      for (const stretch of this.#zone.day(number)) {
        const tick = this.#firstIn(stretch, from)
        if (tick !== undefined) return new Date(tick * 1_000)
      }
      // To the day before the next date that fits: no zone is further from UTC than a day, and none skips more than one.
      const end = (number + 1) * day
      from = Math.max(end, this.#calendar.first(end - 2 * day) - day)
    }
    return null
  }

  previous(before: Date): Date | null {
    let upto = Math.min(latest, Math.ceil(before.getTime() / 1_000))
    while (upto > earliest) {
      const number = Math.floor((upto - 1) / day)
      for (const stretch of this.#zone.day(number).toReversed()) {
        const tick = this.#lastIn(stretch, upto)
        if (tick !== undefined) return new Date(tick * 1_000)
      }
      const begin = number * day
      upto = Math.min(begin, this.#calendar.last(begin + 2 * day) + 2 * day)
    }
    return null
  }

  count(from: Date, upto: Date): number {
    const first = Math.max(earliest, secondOf(from) + 1)
    const end = Math.min(latest, secondOf(upto) + 1)
    let total = 0
    for (let number = Math.floor(first / day); number * day < end; number++) {
      for (const stretch of this.#zone.day(number)) total += this.#countIn(stretch, first, end)
    }
    return total
  }

  between(from: Date, upto: Date, most: number): Date[] {
    return latestOf(this, from, upto, most)
  }

  local(tick: Date): LocalTick {
    const second = secondOf(tick)
    const { offset } = this.#zone.at(second)
    return { time: written(second + offset), offset: writtenOffset(offset), note: this.#note(second) }
  }

  #firstIn(stretch: Stretch, from: number): number | undefined {
    if (from >= stretch.upto || this.#isQuiet(stretch)) return undefined
    if (from <= stretch.from && this.#standIns(stretch) > 0) return stretch.from
    const tick = this.#calendar.first(Math.max(from, stretch.from) + stretch.offset) - stretch.offset
    return tick < stretch.upto ? tick : undefined
  }

  #lastIn(stretch: Stretch, before: number): number | undefined {
    if (before <= stretch.from || this.#isQuiet(stretch)) return undefined
    const tick = this.#calendar.last(Math.min(before, stretch.upto) + stretch.offset) - stretch.offset
    if (tick >= stretch.from) return tick
    return this.#standIns(stretch) > 0 ? stretch.from : undefined
  }

  #countIn(stretch: Stretch, first: number, end: number): number {
    const from = Math.max(first, stretch.from)
    const upto = Math.min(end, stretch.upto)
    if (from >= upto || this.#isQuiet(stretch)) return 0
    const local = from + stretch.offset
    const standsIn =
      from === stretch.from && this.#standIns(stretch) > 0 && this.#calendar.count(local, local + 1) === 0
    return this.#calendar.count(local, upto + stretch.offset) + (standsIn ? 1 : 0)
  }

  /** Fixed times that came already do not come again. */
  #isQuiet(stretch: Stretch): boolean {
    return stretch.again && this.#calendar.fixed
  }

  /** How many skipped times the first moment of a stretch stands in for: those of its own day, for a skipped day never was. */
  #standIns(stretch: Stretch): number {
    if (stretch.skipped === 0 || !this.#calendar.fixed) return 0
    const local = stretch.from + stretch.offset
    return this.#calendar.count(Math.max(local - stretch.skipped, Math.floor(local / day) * day), local)
  }

  #note(second: number): string | null {
    const stretch = this.#zone.at(second)
    const local = second + stretch.offset
    if (stretch.again) return `second of two ${clock(local)}`
    if (this.#comesAgain(second, local)) return `first of two ${clock(local)}`
    const skipped = this.#skippedBefore(second)
    if (!skipped) return null
    const standsIn = skipped.from === second && this.#standIns(skipped) > 0
    return `clocks forward, ${standsIn ? 'for' : 'no'} ${this.#span(skipped)}`
  }

  #comesAgain(second: number, local: number): boolean {
    const number = Math.floor(second / day)
    return [...this.#zone.day(number), ...this.#zone.day(number + 1)].some(
      ({ again, from, upto, offset }) => again && from > second && from + offset <= local && local < upto + offset,
    )
  }

  /** The stretch since the tick before, if any, that begins by skipping times of this rule. */
  #skippedBefore(second: number): Stretch | undefined {
    const since = this.previous(new Date(second * 1_000))
    const first = since === null ? second : secondOf(since) + 1
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

  #span({ from, offset, skipped }: Stretch): string {
    const first = this.#calendar.first(from + offset - skipped)
    const last = this.#calendar.last(from + offset)
    if (skipped >= day) return written(first).slice(0, 10)
    return first === last ? clock(first) : `${clock(first)}–${clock(last)}`
  }
}

function latestOf(rule: TickRule, from: Date, upto: Date, most: number): Date[] {
  const ticks: Date[] = []
  let tick = rule.previous(new Date(upto.getTime() + 1))
  while (tick && tick > from && ticks.length < most) {
    ticks.push(tick)
    tick = rule.previous(tick)
  }
  return ticks.reverse()
}

function inUtc(tick: Date): LocalTick {
  return { time: written(secondOf(tick)), offset: writtenOffset(0), note: null }
}

function secondOf(moment: Date): number {
  return Math.floor(moment.getTime() / 1_000)
}

function isWithin(second: number): boolean {
  return earliest <= second && second < latest
}

function within(ms: number): Date | null {
  return isWithin(ms / 1_000) ? new Date(ms) : null
}

function written(local: number): string {
  return new Date(local * 1_000).toISOString().slice(0, 19).replace('T', ' ')
}

/** The time of day, with seconds only where there are any. */
function clock(local: number): string {
  return written(local).slice(11).replace(/:00$/, '')
}

function writtenOffset(offset: number): string {
  const size = new Date(Math.abs(offset) * 1_000).toISOString().slice(11, 19).replace(/:00$/, '')
  return `${offset < 0 ? '-' : '+'}${size}`
}
