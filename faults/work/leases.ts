import type { Fixture, Work } from './fixture.ts'
import { writeDeaf, writeUnder } from './ledger.ts'

const names = ['cache', 'mirror', 'export', 'prices', 'index']

/** One lease; at times extended in the middle, at times for less than it had; at times it writes under its name. */
export function leases(stage: Fixture): Work {
  const { holdfast, believe, keep, impatience } = stage
  return {
    flows: 4,
    async step(random) {
      const { options, forget } = impatience(random)
      const ttl = random.pick([1_000, 1_500, 2_000])
      try {
        const name = random.pick(names)
        const lease = await (random.chance(0.2)
          ? holdfast.leases.tryAcquire(name, { ttl })
          : holdfast.leases.acquire(name, { ...options, ttl }))
        if (!lease) return
        try {
          await believe(lease, [name], { lasting: true }, async () => {
            await keep(random, lease.signal)
            if (random.chance(0.2)) await lease.extend(random.pick([1_000, 1_200, 2_000]))
            if (random.chance(0.2)) await writeUnder(stage, lease, name, random)
            else if (random.chance(0.1)) await writeDeaf(stage, name, lease.fence, random)
          })
        } finally {
          await lease.release()
        }
      } finally {
        forget()
      }
    },
  }
}
