import type { Campaign } from 'holdfast'
import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** Names with an active campaign of this process, because an instance may have only one campaign per name. */
const campaigns = new Set<string>()

/** Campaigns for a while. Records each term as a hold. */
export async function step({ holdfast, recordHold, pause, sleep }: Fixture, walk: Walk, random: Random) {
  const { schedule, names } = walk
  const name = random.pick(names)
  if (campaigns.has(name)) return
  campaigns.add(name)
  const campaign: Campaign = holdfast.elections.campaign(
    name,
    { preferred: random.chance(0.2) },
    ({ signal, term }) => {
      const leadership = {
        fence: term,
        signal,
        get held() {
          return campaign.leads && campaign.term === term
        },
      }
      return recordHold(leadership, { schedule, names: [name] }, random, () => pause(walk, random))
    },
  )
  await sleep(200 + random.below(800))
  if (random.chance(0.3)) await campaign.stepDown()
  await campaign.close()
  campaigns.delete(name)
}
