/** Everything is run, whatever it takes: `npm run test:all`. */
export const runsAll = Boolean(process.env.HOLDFAST_ALL)

/** CI has little time: what takes minutes, and no change is likely to break alone, is left to `npm test` elsewhere and to `npm run test:all`. */
export const isInHurry = Boolean(process.env.CI) && !runsAll

/**
 * All ways in which something can be. In a hurry the first one, always the same: the same commit gets the same verdict. The places are
 * such that each way comes first somewhere: with an anchor and without.
 */
export function waysOf<const T>(ways: readonly T[]): readonly T[] {
  return isInHurry ? ways.slice(0, 1) : ways
}
