import type { LockOptions } from 'holdfast'
import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** One lock, on one name or several, shared or exclusive, waited for or not. */
export async function step({ holdfast, believe, keep, impatience }: Fixture, walk: Walk, random: Random) {
  const { schedule, names } = walk
  const { options: given, forget } = impatience(random)
  const options: LockOptions & typeof given = { ...given, mode: random.chance(0.3) ? 'shared' : 'exclusive' }
  const asked = random.chance(0.2) ? random.some(names, 1 + random.below(names.length)) : random.pick(names)
  try {
    const tries = random.chance(0.2)
    const lock = await (tries ? holdfast.locks.tryAcquire(asked, options) : holdfast.locks.acquire(asked, options))
    if (!lock) return
    const { names: held, mode } = lock
    await believe(lock, { schedule, names: held, mode }, random, () => keep(walk, random))
    await lock.release()
    if (random.chance(0.05)) await lock.release()
  } finally {
    forget()
  }
}
