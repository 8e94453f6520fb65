import type { OwnedResource } from 'holdfast'
import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

const resources = ['a', 'b', 'c', 'd', 'e']
/** Names with an active assignment of this process, because an instance may have only one per name. */
const assigned = new Set<string>()

/** Takes part in a round, or holds an assignment for a while. */
export async function step({ holdfast, recordHold, pause, sleep }: Fixture, walk: Walk, random: Random) {
  const { schedule, names } = walk
  const name = random.pick(names)
  const tend = (resource: string, owned: OwnedResource) =>
    recordHold(owned, { schedule, names: [`${name}/${resource}`] }, random, () => pause(walk, random))
  if (assigned.has(name) || random.chance(0.6)) {
    const round = random.chance(0.5) ? { round: `${schedule}/${random.below(20)}` } : { window: random.below(500) }
    const waitForOthers = random.chance(0.7)
    await holdfast.shares.each(name, resources, { ...round, concurrency: 2, waitForOthers }, tend).catch((error) => {
      // A call that does not wait for others throws for lost resources. A call that waits starts their work again.
      if (waitForOthers || error.code !== 'RESOURCES_FAILED') throw error
    })
    return
  }
  assigned.add(name)
  const assignment = holdfast.shares.assign(name, resources, tend)
  await sleep(random.below(400))
  await assignment.close()
  assigned.delete(name)
}
