/**
 * Finds and counts the local times that a cron expression matches. Ignores time zones, so every day has 86,400 seconds. Within a day, the
 * calendar counts and searches by arithmetic, so an expression that ticks every second costs no more than an expression that ticks once a
 * day.
 */
import { CronPattern } from 'croner'

const day = 86_400
const lastOfMonth = 0b100000

/**
 * The fields of croner's parsed pattern that the calendar reads. croner exports `CronPattern` but does not document its fields, so any
 * release may rename them. Therefore package.json pins croner to one exact version, and `test/unit/croner.test.ts` checks the fields.
 */
type Dates = Pick<
  CronPattern,
  | 'month'
  | 'day'
  | 'dayOfWeek'
  | 'lastDayOfMonth'
  | 'lastWeekday'
  | 'nearestWeekdays'
  | 'starDOM'
  | 'starDOW'
  | 'useAndLogic'
>

export class Calendar {
  readonly #dates: Dates
  readonly #hours: IndexedField
  readonly #minutes: IndexedField
  readonly #seconds: IndexedField
  readonly #timesPerDay: number
  readonly #masks = new Map<number, number>()
  /**
   * Whether the expression specifies fixed times of day, such as 02:30. False if the seconds, minutes or hours contain
   * an asterisk or a step.
   */
  readonly hasFixedTimes: boolean

  /** Throws the parser's error if the expression is invalid. */
  constructor(cron: string) {
    const pattern = new CronPattern(cron, undefined, { mode: '5-or-6-parts', fixedTimeRule: 'no-wildcard' })
    this.hasFixedTimes = pattern.isFixedTime
    this.#hours = new IndexedField(pattern.hour)
    this.#minutes = new IndexedField(pattern.minute)
    this.#seconds = new IndexedField(pattern.second)
    // Does not keep the whole pattern, because each pattern contains an array of 10,000 years, and there may be thousands of rules.
    const { month, day, dayOfWeek, lastDayOfMonth, lastWeekday, nearestWeekdays, starDOM, starDOW, useAndLogic } =
      pattern
    this.#dates = { month, day, dayOfWeek, lastDayOfMonth, lastWeekday, nearestWeekdays, starDOM, starDOW, useAndLogic }
    this.#timesPerDay = this.#hours.values.length * this.#minutes.values.length * this.#seconds.values.length
  }

  /** Whether the expression matches any date (30 February never exists). Checks each month with every possible length and first weekday. */
  get matchesAnyDate(): boolean {
    return this.#dates.month.some(
      (wanted, month) =>
        wanted &&
        (month === 1 ? [28, 29] : [daysIn(2001, month)]).some((length) =>
          Array.from({ length: 7 }, (_, firstWeekday) => this.#cachedMask(length, firstWeekday)).some(
            (mask) => mask !== 0,
          ),
        ),
    )
  }

  /** Returns the first matching second at or after `from`. */
  first(from: number): number {
    const date = Math.floor(from / day)
    const rank = this.#matches(date) ? this.#rank(from - date * day) : this.#timesPerDay
    if (rank < this.#timesPerDay) return date * day + this.#secondAt(rank)
    return this.#nextDay(date) * day + this.#secondAt(0)
  }

  /** Returns the last matching second before `before`. */
  last(before: number): number {
    const date = Math.floor(before / day)
    const rank = this.#matches(date) ? this.#rank(before - date * day) : 0
    if (rank > 0) return date * day + this.#secondAt(rank - 1)
    return this.#previousDay(date) * day + this.#secondAt(this.#timesPerDay - 1)
  }

  /** Counts the matching seconds from `from` (inclusive) to `to` (exclusive). */
  count(from: number, to: number): number {
    let total = 0
    for (let date = Math.floor(from / day); date * day < to; date++) {
      if (!this.#matches(date)) continue
      total += this.#rank(Math.min(to - date * day, day)) - this.#rank(Math.max(from - date * day, 0))
    }
    return total
  }

  /** Counts the matching times of day before the given second of the day. */
  #rank(second: number): number {
    const { countBelow: hoursBelow } = this.#hours
    const { countBelow: minutesBelow, values: minutes } = this.#minutes
    const { countBelow: secondsBelow, values: seconds } = this.#seconds
    const hour = Math.floor(second / 3_600)
    if (hour > 23) return this.#timesPerDay
    const minute = Math.floor((second % 3_600) / 60)
    let rank = hoursBelow[hour]! * minutes.length * seconds.length
    if (!this.#hours.has(hour)) return rank
    rank += minutesBelow[minute]! * seconds.length
    return this.#minutes.has(minute) ? rank + secondsBelow[second % 60]! : rank
  }

  /** Returns the matching time of day at the given zero-based index, in seconds since midnight. */
  #secondAt(rank: number): number {
    const seconds = this.#seconds.values
    const minutes = this.#minutes.values
    const minute = Math.floor(rank / seconds.length)
    const hour = Math.floor(minute / minutes.length)
    return this.#hours.values[hour]! * 3_600 + minutes[minute % minutes.length]! * 60 + seconds[rank % seconds.length]!
  }

  #matches(date: number): boolean {
    const at = new Date(date * day * 1_000)
    return ((this.#daysOf(at.getUTCFullYear(), at.getUTCMonth()) >>> (at.getUTCDate() - 1)) & 1) === 1
  }

  #nextDay(date: number): number {
    const at = new Date((date + 1) * day * 1_000)
    let year = at.getUTCFullYear()
    let month = at.getUTCMonth()
    let mask = this.#daysOf(year, month) & (-1 << (at.getUTCDate() - 1))
    while (mask === 0) {
      if (++month > 11) {
        month = 0
        year++
      }
      mask = this.#daysOf(year, month)
    }
    return dateNumber(year, month, 32 - Math.clz32(mask & -mask))
  }

  #previousDay(date: number): number {
    const at = new Date((date - 1) * day * 1_000)
    let year = at.getUTCFullYear()
    let month = at.getUTCMonth()
    let mask = this.#daysOf(year, month) & (-1 >>> (32 - at.getUTCDate()))
    while (mask === 0) {
      if (--month < 0) {
        month = 11
        year--
      }
      mask = this.#daysOf(year, month)
    }
    return dateNumber(year, month, 32 - Math.clz32(mask))
  }

  /** Returns a month's matching days as a bit mask, with day 1 in the lowest bit. */
  #daysOf(year: number, month: number): number {
    if (!this.#dates.month[month]) return 0
    return this.#cachedMask(daysIn(year, month), weekday(dateNumber(year, month, 1)))
  }

  /** The mask depends only on the month's length and first weekday. */
  #cachedMask(length: number, firstWeekday: number): number {
    const key = length * 7 + firstWeekday
    const known = this.#masks.get(key)
    if (known !== undefined) return known
    const mask = this.#mask(length, firstWeekday)
    this.#masks.set(key, mask)
    return mask
  }

  #mask(length: number, firstWeekday: number): number {
    const { starDOM, starDOW, useAndLogic } = this.#dates
    let mask = 0
    for (let date = 1; date <= length; date++) {
      const byDate = this.#matchesDate(date, length, firstWeekday)
      const byWeekday = this.#matchesWeekday(date, length, firstWeekday)
      // If both day fields are restricted, a date needs to match only one of them, as in other cron implementations. If the expression
      // contains a +, the date must match both fields.
      const both = useAndLogic || starDOM || starDOW
      if (both ? byDate && byWeekday : byDate || byWeekday) mask |= 1 << (date - 1)
    }
    return mask
  }

  #matchesDate(date: number, length: number, firstWeekday: number): boolean {
    const { day: dates, lastDayOfMonth, lastWeekday, nearestWeekdays } = this.#dates
    const near = (wanted: number) => nearestWorkday(wanted, length, firstWeekday)
    return (
      Boolean(dates[date - 1]) ||
      (lastDayOfMonth && date === length) ||
      (lastWeekday && date === near(length)) ||
      nearestWeekdays.some((wanted, index) => wanted && index < length && near(index + 1) === date)
    )
  }

  #matchesWeekday(date: number, length: number, firstWeekday: number): boolean {
    const wanted = this.#dates.dayOfWeek[(firstWeekday + date - 1) % 7]!
    return Boolean(wanted & (1 << Math.floor((date - 1) / 7)) || (wanted & lastOfMonth && date + 7 > length))
  }
}

/** The allowed values of a cron field, and for each value the number of allowed values below it. */
class IndexedField {
  readonly values: number[] = []
  readonly countBelow: number[] = []
  constructor(flags: readonly number[]) {
    for (const [value, isSet] of flags.entries()) {
      this.countBelow.push(this.values.length)
      if (isSet) this.values.push(value)
    }
  }

  has(value: number): boolean {
    return this.values[this.countBelow[value]!] === value
  }
}

/** Returns the weekday (Monday to Friday) that is nearest to a date and in the same month. */
function nearestWorkday(date: number, length: number, firstWeekday: number): number {
  const weekday = (firstWeekday + date - 1) % 7
  if (weekday === 6) return date === 1 ? 3 : date - 1
  if (weekday === 0) return date === length ? date - 2 : date + 1
  return date
}

function dateNumber(year: number, month: number, date: number): number {
  return Date.UTC(year, month, date) / (day * 1_000)
}

function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
}

function weekday(date: number): number {
  return (((date + 4) % 7) + 7) % 7
}
