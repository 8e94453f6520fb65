import type { Leadership } from 'holdfast'
import { hostile } from '../../test/property/hostile.ts'
import type { Fixture, Workload } from './fixture.ts'
import { writeGuarded } from './ledger.ts'

const names = ['leader', 'index']

/** Campaigns for a while. The leader leads until it loses its term or the campaign ends. */
export function elections(fixture: Fixture): Workload {
  const { holdfast, recordHold, pause, sleep, expiryMs } = fixture
  return {
    async step(random) {
      const name = random.pick(names)
      const lead = (leadership: Leadership) =>
        recordHold(leadership, [`election ${name}`], {}, async (hold) => {
          // Leaders usually lead for a long time.
          await pause(random, leadership.signal, 0.4)
          if (random.chance(0.3)) await writeGuarded(fixture, leadership, { name: `election ${name}`, hold }, random)
          if (random.chance(0.05)) throw hostile(random).make()
        })
      const campaign = holdfast.elections.campaign(name, { preferred: random.chance(0.2) }, lead)
      try {
        // Often longer than a leader with a cut network can lead before its trust ends.
        await sleep(200 + random.below(random.chance(0.5) ? 3_000 : 4 * expiryMs))
        if (random.chance(0.3)) await campaign.stepDown()
      } finally {
        await campaign.close()
      }
    },
  }
}
