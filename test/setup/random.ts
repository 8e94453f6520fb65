/** A repeatable stream of numbers from 0 to 1 (mulberry32). Print the seed where one test is random. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The seed of a random test: `HOLDFAST_TEST_SEED`, to run it again, or a new one. */
export function seed(): number {
  return process.env.HOLDFAST_TEST_SEED ? Number(process.env.HOLDFAST_TEST_SEED) : Math.floor(Math.random() * 2 ** 32)
}

const ranges: [number, number][] = [
  [0x20, 0x7e],
  [0xa0, 0x24f],
  [0x370, 0x5ff],
  [0x4e00, 0x9fff],
  [0xe000, 0xffff],
  [0x10000, 0x10ffff],
]

/** A name of 1 to `most` letters from all over Unicode. */
export function randomName(random: () => number, most = 40): string {
  const length = 1 + Math.floor(random() * most)
  const letters = Array.from({ length }, () => {
    const [from, to] = ranges[Math.floor(random() * ranges.length)]!
    return String.fromCodePoint(from + Math.floor(random() * (to - from + 1)))
  })
  return letters.join('')
}
