import type { Leadership } from 'holdfast'
import { hostile } from '../../test/property/hostile.ts'
import type { Fixture, Work } from './fixture.ts'
import { writeUnder } from './ledger.ts'

const names = ['leader', 'index']

/** A campaign for a while. Who leads believes it until it is told otherwise, or has led for long enough. */
export function elections(stage: Fixture): Work {
  const { holdfast, believe, keep, sleep, expiryMs } = stage
  return {
    async step(random) {
      const name = random.pick(names)
      const lead = (leadership: Leadership) =>
        believe(leadership, [`election ${name}`], {}, async () => {
          // Leaders are there to lead for long.
          await keep(random, leadership.signal, 0.4)
          if (random.chance(0.3)) await writeUnder(stage, leadership, `election ${name}`, random)
          if (random.chance(0.05)) throw hostile(random).make()
        })
      const campaign = holdfast.elections.campaign(name, lead, { preferred: random.chance(0.2) })
      try {
        // Often longer than somebody who was cut off could lead without being told.
        await sleep(200 + random.below(random.chance(0.5) ? 3_000 : 4 * expiryMs))
        if (random.chance(0.3)) await campaign.stepDown()
      } finally {
        await campaign.close()
      }
    },
  }
}
