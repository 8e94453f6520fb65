import type { Fixture, Work } from './fixture.ts'

const names = ['exports', 'mails', 'reports']
export const max = 3

/** A permit, or two at once, of an entity that has room for three. */
export function limits({ holdfast, believe, keep, impatience }: Fixture): Work {
  return {
    flows: 4,
    async step(random) {
      const { options, forget } = impatience(random)
      const weight = 1 + random.below(2)
      const name = random.pick(names)
      try {
        const permit = await (random.chance(0.2)
          ? holdfast.limits.tryAcquire(name, { max, weight })
          : holdfast.limits.acquire(name, { max, weight, ...options }))
        if (!permit) return
        try {
          await believe(permit, [`permit ${name}`], { weight, max }, () => keep(random, permit.signal))
        } finally {
          await permit.release()
        }
      } finally {
        forget()
      }
    },
  }
}
