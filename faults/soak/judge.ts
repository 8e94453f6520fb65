// The rule by which every series is judged.
//
// Each day counts as one sample, from the third day on: by then a table has what it keeps for a day or two. It is the highest sample of the
// day; or the lowest for what comes and goes from moment to moment (`ebbs`), because a leak is there at the quietest moment, too. A line
// goes through these levels. Its slope is the median of the slopes between all pairs of days (Theil and Sen), so one odd day does not
// tip it. A series grows if both of these are true:
//
// - What it gained along the line is more than a fifth of its level (the median), and more than the room that its kind has for noise.
// - In any two days it rose by at least half of what the line says. A leak goes on all the time. A busy machine raises a level on some
//   days, or once and for all: pools fill while everything is slow.
import { days } from './week.ts'

const firstDay = 2
const part = 0.2
const steady = 0.5
const span = 2

/** `samples`: the values of each day, in order. */
export function judge(
  name: string,
  samples: readonly (readonly number[])[],
  { room, ebbs = false }: { room: number; ebbs?: boolean },
) {
  const ofDay = ebbs ? Math.min : Math.max
  const levels = samples.slice(firstDay, days).map((values) => ofDay(...values))
  const slopes = levels.flatMap((to, at) => levels.slice(0, at).map((from, before) => (to - from) / (at - before)))
  const slope = median(slopes)
  const gained = slope * (levels.length - 1)
  const bound = Math.max(part * median(levels), room)
  const isSteady = levels.slice(span).every((level, before) => level - levels[before]! >= steady * slope * span)
  return { name, first: levels[0]!, last: levels.at(-1)!, slope, gained, bound, isOk: gained <= bound || !isSteady }
}

function median(values: number[]) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
