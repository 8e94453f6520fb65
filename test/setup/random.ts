import { randomFrom as repeatable } from '../property/random.ts'
import { fixedSeedOf } from '../property/seed.js'

/** Creates a generator that returns the same numbers from 0 to 1 for the same seed. */
export function randomFrom(seed: number): () => number {
  return repeatable(seed).fraction
}

/** Returns the seed of a test with random input: always the same, or a new one in `npm run test:all`. */
export function seed(): number {
  return fixedSeedOf('random input')
}

const ranges: [number, number][] = [
  [0x20, 0x7e],
  [0xa0, 0x24f],
  [0x370, 0x5ff],
  [0x4e00, 0x9fff],
  [0xe000, 0xffff],
  [0x10000, 0x10ffff],
]

/** Returns a random name of 1 to `maxLength` characters of many scripts. */
export function randomName(random: () => number, maxLength = 40): string {
  const length = 1 + Math.floor(random() * maxLength)
  const letters = Array.from({ length }, () => {
    const [from, to] = ranges[Math.floor(random() * ranges.length)]!
    return String.fromCodePoint(from + Math.floor(random() * (to - from + 1)))
  })
  return letters.join('')
}
