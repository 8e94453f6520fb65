import { readOptions, UsageError, wholeNumber } from '../base/index.js'
import { intervalNsOf, type Rate, rateRule } from '../limits/index.js'

/** What holds for each lane of a definition. Lanes are named when jobs are enqueued. */
export interface LaneOptions {
  /** How many jobs of a lane may run at once, in all processes together. Default 1. */
  max?: number | undefined
  /** How many may begin in a while: `'100/min'`, `'5/s'`, or a count and any duration. */
  rate?: Rate | undefined
  /** How many of the rate may begin at once, after a rest. Default: its count. */
  burst?: number | undefined
}

/** How lanes are limited, as it is written with each job. */
export interface LanePolicy {
  readonly max: number
  /** Microseconds that one job takes of the rate. */
  readonly every?: number
  readonly burst?: number
}

const laneRules = {
  max: wholeNumber(1, 1_000_000),
  rate: rateRule,
  burst: wholeNumber(1, 1_000_000),
}

/** Reads what was given as `lanes`. */
export function lanePolicy(given: unknown): LanePolicy {
  const { max = 1, rate, burst = rate?.count ?? 1 } = readOptions('lanes', given, laneRules)
  if (rate === undefined) {
    if ((given as LaneOptions | undefined)?.burst === undefined) return { max }
    throw new UsageError('Expected a rate with burst, which says how much of it may be taken at once')
  }
  return { max, every: Number((intervalNsOf(rate, burst) + 999n) / 1_000n), burst }
}
