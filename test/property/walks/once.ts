import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** Runs one of a few keys, so that several actors run the same key at the same time. The effect is a row, and the result names its run. */
export async function step({ holdfast, pause, write }: Fixture, walk: Walk, random: Random) {
  const key = `${random.pick(walk.names)}/${random.below(6)}`
  const by = `${process.pid}:${random.below(2 ** 31)}`
  const result = await holdfast.once.run(key, { wait: random.chance(0.5) ? random.below(300) : 0 }, async ({ tx }) => {
    await tx.query('insert into effect (key, by) values ($1, $2)', [key, by])
    await pause(walk, random)
    return { by }
  })
  if (result.status !== 'in-progress') write({ id: key, event: 'result', by: result.value.by })
}
