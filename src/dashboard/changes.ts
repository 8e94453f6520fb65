/** Tolerance for ages, because one snapshot's ages come from statements that run one after the other. */
const toleranceMs = 400

/** Compares two snapshots. A number named `…Ms` is an age or a remaining time, and may change by the elapsed time. */
export function isSame(before: unknown, after: unknown, elapsedMs: number, name = ''): boolean {
  if (Object.is(before, after)) return true
  if (typeof before === 'number' && typeof after === 'number') {
    const change = Math.abs(after - before)
    return name.endsWith('Ms') && Math.abs(change - elapsedMs) <= toleranceMs
  }
  if (typeof before !== 'object' || typeof after !== 'object' || before === null || after === null) return false
  if (before instanceof Date) return after instanceof Date && before.getTime() === after.getTime()
  if (Array.isArray(before) !== Array.isArray(after)) return false
  const [one, other] = [before as Record<string, unknown>, after as Record<string, unknown>]
  const keys = Object.keys(one)
  return (
    keys.length === Object.keys(other).length &&
    keys.every(
      (key) => Object.hasOwn(other, key) && isSame(one[key], other[key], elapsedMs, Array.isArray(before) ? name : key),
    )
  )
}
