/** An instance takes part once at a time in an assignment. */
const assigned = new Set()

const resources = ['a', 'b', 'c', 'd', 'e']

/** A round of work that is divided, or an assignment for a while. */
export async function step({ holdfast, believe, keep, sleep }, walk, random) {
  const { schedule, names } = walk
  const name = random.pick(names)
  const tend = (resource, owned) =>
    believe(owned, { schedule, names: [`${name}/${resource}`] }, random, () => keep(walk, random))
  if (random.chance(0.6)) {
    await holdfast.shares.each(name, resources, tend, { round: `${schedule}/${random.below(20)}`, concurrency: 2 })
    return
  }
  if (assigned.has(name)) return
  assigned.add(name)
  const assignment = holdfast.shares.assign(name, resources, tend)
  await sleep(random.below(400))
  await assignment.close()
  assigned.delete(name)
}
