import { type Duration, formatDuration, type OptionRule, parseDuration, UsageError } from '../base/index.js'

/** Number of uses in a period: `'100/min'`, `'5/s'`, `'1000/h'`, `'1/d'`, or a count and any duration. */
export type Rate = `${number}/${'s' | 'm' | 'min' | 'h' | 'd'}` | { readonly count: number; readonly per: Duration }

export interface ParsedRate {
  readonly count: number
  readonly perMs: number
}

const units: Record<string, number> = { s: 1_000, min: 60_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const maxPeriodMs = 366 * 86_400_000

export const rateRule: OptionRule<ParsedRate> = {
  expected: 'a count and a period such as "100/min", "5/s", "1000/h", "1/d" or { count: 3, per: "10s" }',
  read(given) {
    const rate = typeof given === 'string' ? fromText(given) : fromObject(given)
    if (rate === undefined || !Number.isSafeInteger(rate.count) || rate.count < 1) return undefined
    return rate.perMs > 0 && rate.perMs <= maxPeriodMs ? rate : undefined
  },
}

function fromText(given: string): ParsedRate | undefined {
  const [, count, unit] = /^(\d+)\/(s|min|m|h|d)$/.exec(given) ?? []
  return count && unit ? { count: Number(count), perMs: units[unit]! } : undefined
}

function fromObject(given: unknown): ParsedRate | undefined {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return undefined
  const { count, per, ...others } = given as { count?: unknown; per?: unknown }
  const perMs = parseDuration(per)
  if (typeof count !== 'number' || perMs === undefined || Object.keys(others).length > 0) return undefined
  return { count, perMs }
}

/**
 * Returns the interval of one unit in nanoseconds, rounded up so that a rate is never exceeded. At the maximum of 1
 * million per second, the rounding lowers the rate by at most 0.1 %.
 */
export function intervalNsOf({ count, perMs }: ParsedRate, burst: number): bigint {
  const perNs = BigInt(Math.floor(perMs * 1e6))
  const each = (perNs + BigInt(count) - 1n) / BigInt(count)
  if (each < 1_000n) {
    throw new UsageError(
      `Expected rate to be at most 1,000,000 per second, got ${count} in ${formatDuration(perMs)}`,
      'Count in larger units, for example in kilobytes instead of bytes.',
    )
  }
  if (each * BigInt(burst) > BigInt(maxPeriodMs) * 1_000_000n) {
    throw new UsageError(`Expected the burst to recover within 366 days, got a burst of ${burst}`)
  }
  return each
}
