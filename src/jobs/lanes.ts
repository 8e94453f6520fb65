import { readOptions, UsageError, wholeNumber } from '../base/index.js'
import { intervalNsOf, type Rate, rateRule } from '../limits/index.js'

/** Limits that apply to each of a definition's lanes. You choose the lane's name when you enqueue a job. */
export interface LaneOptions {
  /** Maximum number of jobs in a lane that run at the same time, across all processes. The default is 1. */
  max?: number | undefined
  /** Rate limit for job starts, as a count per duration. Examples: `'100/min'`, `'5/s'`. */
  rate?: Rate | undefined
  /** Number of jobs that may start immediately after an idle period. The default is the count in `rate`. */
  burst?: number | undefined
}

/** A lane's limits, in the form in which each job stores them. */
export interface LanePolicy {
  readonly max: number
  /** Time between two job starts at the maximum rate, in microseconds. */
  readonly every?: number
  readonly burst?: number
}

const laneRules = {
  max: wholeNumber(1, 1_000_000),
  rate: rateRule,
  burst: wholeNumber(1, 1_000_000),
}

export function readPolicy(what: string, given: unknown, defaultMax: number): LanePolicy {
  const { max = defaultMax, rate, burst = rate?.count ?? 1 } = readOptions(what, given, laneRules)
  if (rate === undefined) {
    if ((given as LaneOptions | undefined)?.burst === undefined) return { max }
    throw new UsageError(`Expected ${what}.burst in combination with ${what}.rate, got only ${what}.burst`)
  }
  return { max, every: Number((intervalNsOf(rate, burst) + 999n) / 1_000n), burst }
}
