// The rule that checks whether a series grows.
//
// The rule uses one level per day, from the third day on. By then, a table contains the rows that it keeps for one or
// two days. The level is the highest sample of the day. For series that fluctuate from moment to moment, it is the
// lowest sample, because a leak is visible even at the quietest moment. The series' slope is the median of the slopes
// between all pairs of days (Theil-Sen estimator), so one odd day changes it little. A series grows if both conditions
// are true:
//
// - The increase along the slope exceeds one fifth of the median level, and it exceeds the margin for noise of this kind of series.
// - Over every span of two days, the series rose by at least half of the increase along the slope. A leak grows every day. A busy machine raises
//   the level on some days or only once, for example because pools fill up while everything is slow.
import { days } from './week.ts'

const firstDay = 2
const minShare = 0.2
const minSteadiness = 0.5
const span = 2

/** Checks one series. `samples` contains each day's values, in order. */
export function judge(
  name: string,
  samples: readonly (readonly number[])[],
  { margin, fluctuates = false }: { margin: number; fluctuates?: boolean },
) {
  const levelOf = fluctuates ? Math.min : Math.max
  const levels = samples.slice(firstDay, days).map((values) => levelOf(...values))
  const slopes = levels.flatMap((to, at) => levels.slice(0, at).map((from, before) => (to - from) / (at - before)))
  const slope = median(slopes)
  const gained = slope * (levels.length - 1)
  const bound = Math.max(minShare * median(levels), margin)
  const isSteady = levels.slice(span).every((level, before) => level - levels[before]! >= minSteadiness * slope * span)
  return { name, first: levels[0]!, last: levels.at(-1)!, slope, gained, bound, isOk: gained <= bound || !isSteady }
}

function median(values: number[]) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
