import { createHash, randomInt } from 'node:crypto'
import { runsAll } from '../setup/variants.js'

/** Returns a new seed for each run of a property test, and prints it. HOLDFAST_SEED repeats a run. */
export function seedOf(what: string): number {
  const seed = process.env.HOLDFAST_SEED ? Number(process.env.HOLDFAST_SEED) : randomInt(2 ** 31)
  console.log(`${what}: HOLDFAST_SEED=${seed}`)
  return seed
}

/**
 * Returns the same seed in every run of a test that is not a property test, so that the result depends only on the commit.
 * `npm run test:all` uses a new seed.
 */
export function fixedSeedOf(what: string): number {
  if (runsAll || process.env.HOLDFAST_SEED) return seedOf(what)
  return createHash('sha256').update(what).digest().readUInt32BE() >>> 1
}

/** Returns `usual`, scaled by the ratio of HOLDFAST_SCHEDULES to `usualTotal` if that variable is set. A third of it unless all tests run. */
export function countOf(usual: number, usualTotal = usual): number {
  const wanted = process.env.HOLDFAST_SCHEDULES
  if (wanted) return Math.max(1, Math.round((Number(wanted) * usual) / usualTotal))
  return runsAll ? usual : Math.ceil(usual / 3)
}
