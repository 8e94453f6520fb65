import type { OwnedResource } from 'holdfast'
import type { Random } from '../../test/property/random.ts'
import type { Fixture, Workload } from './fixture.ts'

const resources = ['a', 'b', 'c', 'd', 'e']

/** Takes part in a round, or holds an assignment for a while. */
export function shares({ holdfast, recordHold, pause, sleep }: Fixture): Workload {
  const tend = (name: string, random: Random) => (resource: string, owned: OwnedResource) =>
    recordHold(owned, [`share ${name}/${resource}`], {}, () => pause(random, owned.signal))
  return {
    async step(random) {
      if (random.chance(0.6)) {
        await holdfast.shares.each(
          'round',
          resources,
          {
            window: random.below(500),
            concurrency: 2,
          },
          tend('round', random),
        )
        return
      }
      const assignment = holdfast.shares.assign('tended', resources, tend('tended', random))
      try {
        await sleep(200 + random.below(2_000))
      } finally {
        await assignment.close()
      }
    },
  }
}
