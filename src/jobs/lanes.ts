import { readOptions, UsageError, wholeNumber } from '../base/index.js'
import { intervalNsOf, type Rate, rateRule } from '../limits/index.js'

/** Limits for each of a definition's lanes. The lane's name is passed when a job is enqueued. */
export interface LaneOptions {
  /** Maximum number of jobs in a lane that run at the same time, across all processes. Default 1. */
  max?: number | undefined
  /** Rate limit for job starts: `'100/min'`, `'5/s'`, or a count with any duration. */
  rate?: Rate | undefined
  /** Number of jobs that may start immediately after an idle period. Default: the count in the rate. */
  burst?: number | undefined
}

/** A lane's limits, as they are stored with each job. */
export interface LanePolicy {
  readonly max: number
  /** Time between two job starts at the full rate, in microseconds. */
  readonly every?: number
  readonly burst?: number
}

const laneRules = {
  max: wholeNumber(1, 1_000_000),
  rate: rateRule,
  burst: wholeNumber(1, 1_000_000),
}

export function lanePolicy(given: unknown): LanePolicy {
  const { max = 1, rate, burst = rate?.count ?? 1 } = readOptions('lanes', given, laneRules)
  if (rate === undefined) {
    if ((given as LaneOptions | undefined)?.burst === undefined) return { max }
    throw new UsageError('Expected lanes.rate together with lanes.burst, got only lanes.burst')
  }
  return { max, every: Number((intervalNsOf(rate, burst) + 999n) / 1_000n), burst }
}
