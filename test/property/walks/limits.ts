import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** A permit, or two at once, of an entity that has room for three. */
export async function step({ holdfast, believe, keep, impatience }: Fixture, walk: Walk, random: Random) {
  const { schedule, names } = walk
  const { options, forget } = impatience(random)
  const max = 3
  const weight = 1 + random.below(2)
  const name = random.pick(names)
  try {
    // Without a wait of its own, one that only a fault can end.
    const asked = { max, weight, wait: 60_000, ...options }
    const permit = random.chance(0.2)
      ? await holdfast.limits.tryAcquire(name, { max, weight })
      : await holdfast.limits.acquire(name, asked)
    if (!permit) return
    await believe(permit, { schedule, names: [name], weight, max }, random, () => keep(walk, random))
    await permit.release()
    if (random.chance(0.05)) await permit.release()
  } finally {
    forget()
  }
}
