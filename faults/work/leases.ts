import { now } from '../history.ts'
import type { Fixture, Workload } from './fixture.ts'
import { writeGuarded, writeGuardedBySql } from './ledger.ts'

const names = ['cache', 'mirror', 'export', 'prices', 'index']

/** Acquires one lease. Sometimes extends it, by more or less time than it had, and sometimes writes with its guard. */
export function leases(fixture: Fixture): Workload {
  const { holdfast, recordHold, pause, randomWait } = fixture
  return {
    flows: 4,
    async step(random) {
      const { options, clear } = randomWait(random)
      const ttl = random.pick([1_000, 1_500, 2_000])
      const requestedAt = now()
      try {
        const name = random.pick(names)
        const lease = await (random.chance(0.2)
          ? holdfast.leases.tryAcquire(name, { ttl })
          : holdfast.leases.acquire(name, { ...options, ttl }))
        if (!lease) return
        await recordHold(lease, [name], { lasting: true, requestedAt }, async (hold) => {
          await pause(random, lease.signal)
          if (random.chance(0.2)) await lease.extend(random.pick([1_000, 1_200, 2_000]))
          if (random.chance(0.2)) await writeGuarded(fixture, lease, { name, hold }, random)
          else if (random.chance(0.1)) await writeGuardedBySql(fixture, { name, hold, fence: lease.fence }, random)
        })
      } finally {
        clear()
      }
    },
  }
}
