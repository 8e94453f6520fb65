import { randomFrom } from '../property/random.mjs'
import { seedOf } from '../property/seed.js'

/** CI has little time: what takes minutes, and no change is likely to break alone, is left to whoever runs `npm test` elsewhere. */
export const isInHurry = Boolean(process.env.CI)

/** All ways in which something can be; in a hurry one of them, another one each time. */
export function waysOf<const T>(what: string, ways: readonly T[]): readonly T[] {
  return isInHurry ? [randomFrom(seedOf(what)).pick(ways)] : ways
}
