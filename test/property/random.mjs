/**
 * Random numbers that come again with the same seed (mulberry32). Plain JavaScript, for the actors use it too.
 * @param {number} seed
 */
export function randomFrom(seed) {
  let state = seed >>> 0
  const fraction = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit) => Math.floor(fraction() * limit)
  return {
    fraction,
    below,
    chance: (probability) => fraction() < probability,
    pick: (items) => items[below(items.length)],
    some: (items, count) => [...items].sort(() => fraction() - 0.5).slice(0, count),
  }
}
