/**
 * Time zones as data: which offset from UTC holds when, and what the clocks do where it changes. All in whole seconds, because
 * that is what zones are made of. It reads the time zone tables of the runtime, never its clock and never its own zone.
 */
export interface OffsetPeriod {
  /** Seconds since the epoch: from this one, and before `to`. */
  readonly from: number
  readonly to: number
  /** Local time minus UTC. */
  readonly offset: number
  /** How much local time is skipped at `from`, because the clocks go forward there; mostly 0. */
  readonly skipped: number
  /** The clocks went back: every local time of this period has been there before. */
  readonly isRepeated: boolean
}

const day = 86_400
/** Days remembered in one zone; then it begins afresh, so that a long look back fills no memory. */
const maxCachedDays = 4_096
const zones = new Map<string, Zone>()

/** The zone of this name. Whether there is one is asked before, with `isZone`. */
export function zoneOf(name: string): Zone {
  const known = zones.get(name)
  if (known) return known
  const zone = new Zone(name)
  zones.set(name, zone)
  return zone
}

/**
 * Whether it names a zone by a place, or is `UTC`. The runtime takes more: offsets, which have no clocks to change, abbreviations
 * such as `PST`, which are names of its own, and any capitals.
 */
export function isZone(name: string): boolean {
  if (zones.has(name)) return true
  const lower = name.toLowerCase()
  const listed = zoneNames().find((known) => known.toLowerCase() === lower)
  if (listed !== undefined) return listed === name
  // What is not listed may be another name of a zone that is.
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

/** The clocks of a zone go forward, and local times are skipped; or back, and they come twice. */
export interface ClockChange {
  readonly at: Date
  /** Until when local times come again; `at` where they are skipped. */
  readonly until: Date
  readonly kind: 'skipped' | 'twice'
  /** The local times that this is about, such as `01:00:00` to `02:00:00`. */
  readonly local: readonly [from: string, to: string]
}

/**
 * When the clocks of a zone change, at or after `from` and before `to`.
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
      // One that runs over midnight stands in two days.
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

  /** The periods of one UTC day, counted from the epoch, in order and without a hole. */
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
    // What the clocks did on the day before matters, too: all its local times may be there again.
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

  /** The changes of offset at or after `from` and before `to`, which are midnights of UTC. */
  #changes(from: number, to: number): { at: number; gained: number }[] {
    const changes: { at: number; gained: number }[] = []
    // A change at the very midnight belongs to the day that begins with it.
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
    // Only the ends of days are asked for again.
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
