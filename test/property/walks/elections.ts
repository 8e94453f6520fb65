import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** An instance campaigns once at a time for a name. */
const campaigns = new Set<string>()

/** A campaign for a while. Who leads believes it until its signal says otherwise, or it has led for long enough. */
export async function step({ holdfast, believe, keep, sleep }: Fixture, walk: Walk, random: Random) {
  const { schedule, names } = walk
  const name = random.pick(names)
  if (campaigns.has(name)) return
  campaigns.add(name)
  const campaign = holdfast.elections.campaign(
    name,
    ({ signal, term }) => {
      const leadership = {
        fence: term,
        signal,
        get held() {
          return campaign.leads && campaign.term === term
        },
      }
      return believe(leadership, { schedule, names: [name] }, random, () => keep(walk, random))
    },
    { preferred: random.chance(0.2) },
  )
  await sleep(200 + random.below(800))
  if (random.chance(0.3)) await campaign.stepDown()
  await campaign.close()
  campaigns.delete(name)
}
