import { readOptions, UsageError, wholeNumber } from '../base/index.js'
import { intervalNsOf, type Rate, rateRule } from '../limits/index.js'

/** Limits for each lane of a definition. The name of a lane is given when a job is enqueued. */
export interface LaneOptions {
  /** Maximum number of jobs of a lane that run at the same time, in all processes together. Default 1. */
  max?: number | undefined
  /** Rate limit for starts: `'100/min'`, `'5/s'`, or a count and any duration. */
  rate?: Rate | undefined
  /** Number of starts that the rate allows immediately after an idle period. Default: the count of the rate. */
  burst?: number | undefined
}

/** Limits of a lane, as they are stored with each job. */
export interface LanePolicy {
  readonly max: number
  /** Microseconds of the rate that one job uses. */
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
