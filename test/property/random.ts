export interface Random {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  fraction(): number
  below(limit: number): number
  chance(probability: number): boolean
  pick<T>(items: readonly T[]): T
  some<T>(items: readonly T[], count: number): T[]
}

/** Creates a random generator that returns the same numbers for the same seed (mulberry32). */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0
  const fraction = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(fraction() * limit)
  return {
    fraction,
    below,
    chance: (probability) => fraction() < probability,
    pick: (items) => items[below(items.length)]!,
    some: (items, count) => [...items].sort(() => fraction() - 0.5).slice(0, count),
  }
}
