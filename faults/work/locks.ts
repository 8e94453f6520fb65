import type { Fixture, Work } from './fixture.ts'
import { writeDeaf, writeUnder } from './ledger.ts'

/** Some of them are also wanted by lease: the two ways exclude each other. */
const names = ['accounts', 'books', 'stock', 'mirror', 'ledger', 'export']

/** One lock, on one name or several, shared or exclusive, waited for or not; alone, it writes under the name. */
export function locks(stage: Fixture): Work {
  const { holdfast, believe, keep, impatience } = stage
  // Locks are of a session: without an anchor there are none.
  if (stage.anchor === 'none') return {}
  return {
    flows: 6,
    async step(random) {
      const { options, forget } = impatience(random)
      const given = random.chance(0.3) ? 'shared' : 'exclusive'
      const asked = random.chance(0.2) ? random.some(names, 1 + random.below(names.length)) : random.pick(names)
      try {
        const lock = await (random.chance(0.2)
          ? holdfast.locks.tryAcquire(asked, { mode: given })
          : holdfast.locks.acquire(asked, { ...options, mode: given }))
        if (!lock) return
        const { names: held, mode } = lock
        try {
          await believe(lock, held, { mode }, async () => {
            await keep(random, lock.signal)
            if (mode === 'exclusive' && held.length === 1 && random.chance(0.3)) {
              if (random.chance(0.3)) await writeDeaf(stage, held[0]!, lock.fence, random)
              else await writeUnder(stage, lock, held[0]!, random)
            }
          })
        } finally {
          await lock.release()
        }
        if (random.chance(0.05)) await lock.release()
      } finally {
        forget()
      }
    },
  }
}
