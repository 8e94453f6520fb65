// The one rule by which every series is judged.
//
// Of each day the highest sample counts, from the third day on: by then whatever is kept for a day or two is there. Through these
// peaks goes a line, whose slope is the median of the slopes between all pairs of them (Theil and Sen), so that one odd day does
// not tip it. What the series gained along that line must be less than a fifth of its level, the median of the peaks, or less than
// the room that its kind has for noise.
import { days } from './week.js'

const firstDay = 2
const part = 0.2

/** `samples`: the values of each day, in order. */
export function judge(name, samples, { room }) {
  const peaks = samples.slice(firstDay, days).map((values) => Math.max(...values))
  const slopes = peaks.flatMap((to, at) => peaks.slice(0, at).map((from, before) => (to - from) / (at - before)))
  const slope = median(slopes)
  const gained = slope * (peaks.length - 1)
  const bound = Math.max(part * median(peaks), room)
  return { name, first: peaks[0], last: peaks.at(-1), slope, gained, bound, isOk: gained <= bound }
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
