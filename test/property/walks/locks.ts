import type { LockOptions } from 'holdfast'
import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** Acquires a shared or exclusive lock on one or several names. */
export async function step({ holdfast, recordHold, pause, randomWait }: Fixture, walk: Walk, random: Random) {
  const { schedule, names } = walk
  const { options: given, clear } = randomWait(random)
  const options: LockOptions & typeof given = { ...given, mode: random.chance(0.3) ? 'shared' : 'exclusive' }
  const chosen = random.chance(0.2) ? random.some(names, 1 + random.below(names.length)) : random.pick(names)
  try {
    const tries = random.chance(0.2)
    const lock = await (tries ? holdfast.locks.tryAcquire(chosen, options) : holdfast.locks.acquire(chosen, options))
    if (!lock) return
    const { names: held, mode } = lock
    await recordHold(lock, { schedule, names: held, mode }, random, () => pause(walk, random))
    await lock.release()
    if (random.chance(0.05)) await lock.release()
  } finally {
    clear()
  }
}
