import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** Acquires a permit of weight 1 or 2. The limit is 3. */
export async function step({ holdfast, recordHold, pause, randomWait }: Fixture, walk: Walk, random: Random) {
  const { schedule, names } = walk
  const { options, clear } = randomWait(random)
  const max = 3
  const weight = 1 + random.below(2)
  const name = random.pick(names)
  try {
    // A minute, unless `options` has another wait. Only faults can make a call wait for a minute.
    const acquireOptions = { max, weight, wait: 60_000, ...options }
    const permit = random.chance(0.2)
      ? await holdfast.limits.tryAcquire(name, { max, weight })
      : await holdfast.limits.acquire(name, acquireOptions)
    if (!permit) return
    await recordHold(permit, { schedule, names: [name], weight, max }, random, () => pause(walk, random))
    await permit.release()
    if (random.chance(0.05)) await permit.release()
  } finally {
    clear()
  }
}
