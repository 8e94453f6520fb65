/**
 * Period in which a time zone has a constant UTC offset. All values are whole seconds. This file reads the runtime's time zone tables, but
 * neither the runtime's clock nor its local time zone.
 */
export interface OffsetPeriod {
  /** Start in seconds since the epoch (inclusive). `to` is the end (exclusive). */
  readonly from: number
  readonly to: number
  /** Local time minus UTC. */
  readonly offset: number
  /** Seconds of local time that are skipped at `from` because the clocks go forward. Usually 0. */
  readonly skipped: number
  /** Whether every local time in this period has already occurred, because the clocks went back. */
  readonly isRepeated: boolean
}

const day = 86_400
/** Maximum number of cached days per zone. When a cache reaches this size, it is cleared. */
const maxCachedDays = 4_096
const zones = new Map<string, Zone>()

/** Returns the zone with this name. Check the name with `isZone` first. */
export function zoneOf(name: string): Zone {
  const known = zones.get(name)
  if (known) return known
  const zone = new Zone(name)
  zones.set(name, zone)
  return zone
}

/**
 * Whether the name is a place or `UTC`. The runtime would also accept offsets (which have no clock changes), abbreviations such as `PST`,
 * and names in any mix of upper and lower case.
 */
export function isZone(name: string): boolean {
  if (zones.has(name)) return true
  const lower = name.toLowerCase()
  const listed = zoneNames().find((known) => known.toLowerCase() === lower)
  if (listed !== undefined) return listed === name
  // An unlisted name may be an alias of a listed zone.
  if (!/^[A-Z].*\//.test(name)) return false
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name })
    return true
  } catch {
    return false
  }
}

export function zoneNames(): string[] {
  return ['UTC', ...Intl.supportedValuesOf('timeZone')]
}

/** A clock change: the clocks go forward and local times are skipped, or the clocks go back and local times occur twice. */
export interface ClockChange {
  readonly at: Date
  /** End of the repeated local times. Equal to `at` if local times are skipped. */
  readonly until: Date
  readonly kind: 'skipped' | 'twice'
  /** The affected local times, such as `01:00:00` to `02:00:00`. */
  readonly local: readonly [from: string, to: string]
}

/**
 * Returns a zone's clock changes at or after `from` and before `to`.
 *
 * @example
 * clockChanges('Europe/London', new Date('2026-03-01T00:00:00Z'), new Date('2026-04-01T00:00:00Z'))[0]?.kind // skipped
 */
export function clockChanges(timezone: string, from: Date, to: Date): ClockChange[] {
  const [first, end] = [from.getTime() / 1_000, to.getTime() / 1_000]
  const zone = zoneOf(timezone)
  const found: ClockChange[] = []
  let before: OffsetPeriod | undefined
  for (let number = Math.floor(first / day); number * day < end; number++) {
    for (const period of zone.day(number)) {
      // `Zone.day` returns a period that spans midnight in two parts, one for each day.
      const isNew = period.skipped > 0 || (period.isRepeated && !before?.isRepeated)
      before = period
      if (!isNew || period.from < first || period.from >= end) continue
      const kind = period.skipped > 0 ? 'skipped' : 'twice'
      const local = period.from + period.offset
      const changed = kind === 'skipped' ? [local - period.skipped, local] : [local, period.to + period.offset]
      found.push({
        at: new Date(period.from * 1_000),
        until: new Date((kind === 'skipped' ? period.from : period.to) * 1_000),
        kind,
        local: [clockTime(changed[0]!), clockTime(changed[1]!)],
      })
    }
  }
  return found
}

function clockTime(second: number): string {
  return new Date(second * 1_000).toISOString().slice(11, 19)
}

export class Zone {
  readonly #format: Intl.DateTimeFormat
  readonly #offsets = new Map<number, number>()
  readonly #periods = new Map<number, readonly OffsetPeriod[]>()

  constructor(name: string) {
    this.#format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' })
  }

  /** Returns the periods of one UTC day, in order and without gaps. Days are counted from the Unix epoch. */
  day(number: number): readonly OffsetPeriod[] {
    const known = this.#periods.get(number)
    if (known) return known
    if (this.#periods.size >= maxCachedDays) this.#periods.clear()
    const periods = this.#periodsOf(number)
    this.#periods.set(number, periods)
    return periods
  }

  at(second: number): OffsetPeriod {
    return this.day(Math.floor(second / day)).find(({ to }) => second < to)!
  }

  #periodsOf(number: number): OffsetPeriod[] {
    const first = number * day
    const last = first + day
    // Also reads the previous day's clock changes, because the repeated local times may extend into this day.
    const changes = [...this.#changes(first - day, first), ...this.#changes(first, last)]
    if (changes.length === 0) {
      return [{ from: first, to: last, offset: this.#offsetAt(last - 1), skipped: 0, isRepeated: false }]
    }
    const edges = new Set([first, last])
    for (const { at, gained } of changes) {
      for (const edge of [at, at - gained]) if (edge > first && edge < last) edges.add(edge)
    }
    const cuts = [...edges].sort((a, b) => a - b)
    return cuts.slice(1).map((to, index) => {
      const from = cuts[index]!
      const change = changes.find(({ at }) => at === from)
      return {
        from,
        to,
        offset: this.#offsetAt(from),
        skipped: Math.max(0, change?.gained ?? 0),
        isRepeated: changes.some(({ at, gained }) => at <= from && from < at - gained),
      }
    })
  }

  /** Returns the changes in the UTC offset at or after `from` and before `to`. `from` and `to` must be midnight in UTC. */
  #changes(from: number, to: number): { at: number; gained: number }[] {
    const changes: { at: number; gained: number }[] = []
    // A change at exactly midnight belongs to the day that begins at that time.
    let known = from - 1
    let offset = this.#offsetAt(known)
    while (offset !== this.#offsetAt(to - 1)) {
      let same = known
      let other = to - 1
      while (other - same > 1) {
        const middle = Math.floor((same + other) / 2)
        if (this.#offsetAt(middle) === offset) same = middle
        else other = middle
      }
      const next = this.#offsetAt(other)
      changes.push({ at: other, gained: next - offset })
      known = other
      offset = next
    }
    return changes
  }

  #offsetAt(second: number): number {
    const known = this.#offsets.get(second)
    if (known !== undefined) return known
    const offset = this.#readOffset(second)
    // Caches only the last second of each day, because other seconds are not read more than once.
    if (second % day === day - 1 || second % day === -1) {
      if (this.#offsets.size >= maxCachedDays) this.#offsets.clear()
      this.#offsets.set(second, offset)
    }
    return offset
  }

  #readOffset(second: number): number {
    const [, sign, hours, minutes, seconds] =
      /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/.exec(this.#format.format(second * 1_000)) ?? []
    if (!sign) return 0
    const size = Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds ?? 0)
    return sign === '-' ? -size : size
  }
}
