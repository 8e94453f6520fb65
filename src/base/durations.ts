/**
 * A duration: a number of milliseconds, or a string with units, such as `'250ms'`, `'30s'`, `'5m'`, `'2h'`, `'1d'`,
 * `'1m30s'`.
 */
export type Duration = number | string

/** Maximum delay of a timer. A Node.js timer with a delay of more than 2^31 ms fires immediately. */
export const maxTimerMs = 24 * 86_400_000

const unitMs: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Returns the duration in milliseconds, or undefined if the value is not a duration. */
export function parseDuration(given: unknown): number | undefined {
  if (typeof given === 'number') return Number.isFinite(given) && given >= 0 ? given : undefined
  if (typeof given !== 'string' || !/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(given)) return undefined
  let totalMs = 0
  for (const [, amount, unit] of given.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    totalMs += Number(amount) * unitMs[unit!]!
  }
  return Number.isFinite(totalMs) ? totalMs : undefined
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
