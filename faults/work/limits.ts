import type { Fixture, Workload } from './fixture.ts'

const names = ['exports', 'mails', 'reports']
export const max = 3

/** Acquires a permit of weight 1 or 2. The limit is 3. */
export function limits({ holdfast, recordHold, pause, randomWait }: Fixture): Workload {
  return {
    flows: 4,
    async step(random) {
      const { options, clear } = randomWait(random)
      const weight = 1 + random.below(2)
      const name = random.pick(names)
      try {
        const permit = await (random.chance(0.2)
          ? holdfast.limits.tryAcquire(name, { max, weight })
          : holdfast.limits.acquire(name, { max, weight, ...options }))
        if (!permit) return
        await recordHold(permit, [`permit ${name}`], { weight, max }, () => pause(random, permit.signal))
      } finally {
        clear()
      }
    },
  }
}
