import { now } from '../history.ts'
import type { Fixture, Workload } from './fixture.ts'
import { writeGuarded, writeGuardedBySql } from './ledger.ts'

/** Names of locks. The lease workload uses some of them as well, because a lock and a lease of one name exclude each other. */
const names = ['accounts', 'books', 'stock', 'mirror', 'ledger', 'export']

/** Acquires a lock on one or several names. With an exclusive lock on one name, sometimes writes with its guard. */
export function locks(fixture: Fixture): Workload {
  const { holdfast, recordHold, pause, randomWait } = fixture
  // Locks need a session, so an instance without an anchor has none.
  if (fixture.anchor === 'none') return {}
  return {
    flows: 6,
    async step(random) {
      const { options, clear } = randomWait(random)
      const given = random.chance(0.3) ? 'shared' : 'exclusive'
      const chosen = random.chance(0.2) ? random.some(names, 1 + random.below(names.length)) : random.pick(names)
      const requestedAt = now()
      try {
        const lock = await (random.chance(0.2)
          ? holdfast.locks.tryAcquire(chosen, { mode: given })
          : holdfast.locks.acquire(chosen, { ...options, mode: given }))
        if (!lock) return
        const { names: held, mode } = lock
        await recordHold(lock, held, { mode, requestedAt }, async (hold) => {
          await pause(random, lock.signal)
          if (mode === 'exclusive' && held.length === 1 && random.chance(0.3)) {
            if (random.chance(0.3))
              await writeGuardedBySql(fixture, { name: held[0]!, hold, fence: lock.fence }, random)
            else await writeGuarded(fixture, lock, { name: held[0]!, hold }, random)
          }
        })
        if (random.chance(0.05)) await lock.release()
      } finally {
        clear()
      }
    },
  }
}
