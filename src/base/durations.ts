/**
 * A duration: a number of milliseconds, a string with units, such as `'250ms'`, `'30s'`, `'1.5h'`, `'1m30s'`, or a
 * `Temporal.Duration` without years, months and weeks. Text with a sign, an exponent or spaces has the right type, but
 * throws a `UsageError`.
 */
export type Duration = number | DurationText | TemporalDuration

/** Days, hours, minutes, seconds and milliseconds, in this order and each at most once. At least one is present. */
export type DurationText = Exclude<
  `${'' | `${number}d`}${'' | `${number}h`}${'' | `${number}m`}${'' | `${number}s`}${'' | `${number}ms`}`,
  ''
>

/**
 * The method of `Temporal.Duration` that Holdfast calls. Declared here, because not every program has types for
 * Temporal.
 */
export interface TemporalDuration {
  total(unit: 'milliseconds'): number
}

/** Maximum delay for a timer. A Node.js timer with a delay of more than 2^31 ms fires immediately. */
export const maxTimerMs = 24 * 86_400_000

const durationPattern = new RegExp(
  `^${['d', 'h', 'm', 's', 'ms'].map((unit) => `(?:(\\d+(?:\\.\\d+)?)${unit})?`).join('')}$`,
)
const unitsMs = [86_400_000, 3_600_000, 60_000, 1_000, 1]

/** Returns the duration in milliseconds, or undefined if the value is not a duration. */
export function parseDuration(given: unknown): number | undefined {
  const ms = typeof given === 'string' ? fromText(given) : typeof given === 'number' ? given : fromTemporal(given)
  return ms !== undefined && Number.isFinite(ms) && ms >= 0 ? ms : undefined
}

function fromText(given: string): number | undefined {
  const [, ...amounts] = (given !== '' && durationPattern.exec(given)) || []
  if (amounts.length === 0) return undefined
  return amounts.reduce((totalMs, amount, at) => totalMs + Number(amount ?? 0) * unitsMs[at]!, 0)
}

function fromTemporal(given: unknown): number | undefined {
  try {
    const ms: unknown = (given as TemporalDuration).total('milliseconds')
    return typeof ms === 'number' ? ms : undefined
  } catch {
    // The value is not a `Temporal.Duration`, or it has years, months or weeks, whose length depends on the date.
    return undefined
  }
}

/** Formats milliseconds for people: `950ms`, `2.5s`, `3m 20s`, `4h 2m`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`
  if (ms < 60_000) return `${Number((ms / 1_000).toFixed(1))}s`
  const units: [number, string][] = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'm'],
    [1_000, 's'],
  ]
  const first = units.findIndex(([size]) => ms >= size)
  const [size, unit] = units[first]!
  const [nextSize, nextUnit] = units[first + 1] ?? [0, '']
  const rest = nextSize ? Math.floor((ms % size) / nextSize) : 0
  return `${Math.floor(ms / size)}${unit}${rest ? ` ${rest}${nextUnit}` : ''}`
}
