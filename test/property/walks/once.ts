import type { Random } from '../random.ts'
import type { Fixture, Walk } from './fixture.ts'

/** A delivery, of which there are few, so that they meet: its effect is a row, and its answer says who made it. */
export async function step({ holdfast, keep, write }: Fixture, walk: Walk, random: Random) {
  const key = `${random.pick(walk.names)}/${random.below(6)}`
  const by = `${process.pid}:${random.below(2 ** 31)}`
  const answer = await holdfast.once.run(
    key,
    async ({ tx }) => {
      await tx.query('insert into effect (key, by) values ($1, $2)', [key, by])
      await keep(walk, random)
      return { by }
    },
    { wait: random.chance(0.5) ? random.below(300) : 0 },
  )
  if (answer.status !== 'in-progress') write({ id: key, event: 'answered', by: answer.value.by })
}
