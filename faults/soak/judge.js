// The one rule by which every series is judged.
//
// Of each day one sample counts, from the third day on: by then whatever is kept for a day or two is there. It is the highest; or the
// lowest, for what comes and goes from moment to moment (`ebbs`): what leaks is there at the quietest moment, too. Through these
// goes a line, whose slope is the median of the slopes between all pairs of them (Theil and Sen), so that one odd day does
// not tip it. What the series gained along that line must be less than a fifth of its level, their median, or less than
// the room that its kind has for noise.
import { days } from './week.js'

const firstDay = 2
const part = 0.2

/** `samples`: the values of each day, in order. */
export function judge(name, samples, { room, ebbs = false }) {
  const ofDay = ebbs ? Math.min : Math.max
  const levels = samples.slice(firstDay, days).map((values) => ofDay(...values))
  const slopes = levels.flatMap((to, at) => levels.slice(0, at).map((from, before) => (to - from) / (at - before)))
  const slope = median(slopes)
  const gained = slope * (levels.length - 1)
  const bound = Math.max(part * median(levels), room)
  return { name, first: levels[0], last: levels.at(-1), slope, gained, bound, isOk: gained <= bound }
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
