/** A delivery, of which there are few for a while, so that they meet: its effect is a row, and its answer says who made it. */
export function once({ holdfast, keep, write, ofTheUser }) {
  let runs = 0
  return {
    flows: 3,
    async step(random) {
      // All instances get the same ones, whatever their clocks say.
      const key = `${process.hrtime.bigint() / 3_000_000_000n}/${random.below(8)}`
      const by = `${process.pid}:${++runs}`
      const answer = await holdfast.once.run(
        key,
        async ({ tx }) => {
          await tx.query('insert into effect (what, id, by) values ($1, $2, $3)', ['delivery', key, by])
          await keep(random)
          if (random.chance(0.1)) throw new Error('by chance', { cause: ofTheUser })
          return { by }
        },
        { wait: random.chance(0.5) ? random.below(300) : 0 },
      )
      if (answer.status !== 'in-progress') write('answered', { key, by: answer.value.by })
    },
  }
}
