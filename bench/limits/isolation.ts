// Measures how long a free entity's only caller waits while many callers use another entity.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { type Contestant, loops, type Options, runRounds, summary } from '../measure.ts'
import { table } from '../table.ts'
import { fleet } from './fleet.ts'

const crowd = { processes: 2, each: 32 }

export async function isolation(url: string, { rounds, roundMs, progress }: Options) {
  const holdfast = await Holdfast.open({ url, namespace: 'bench' })
  const quiet = {
    name: 'no other load',
    run: (ms: number) => loops(1, ms, async () => (await holdfast.limits.acquire('quiet', { max: 1 })).release()),
  }
  const hot = await fleet('hot', url, 'permit hot 10', crowd)
  const spread = await fleet('spread', url, 'permit spread', crowd)
  const during = (name: string, others: Contestant) => ({
    name,
    async run(ms: number) {
      const [outcome] = await Promise.all([quiet.run(ms), others.run(ms)])
      return outcome
    },
  })
  /** A transaction locks another entity's row during the whole run. */
  const locked = {
    name: 'with the row of another entity locked',
    async run(ms: number) {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      await (await holdfast.limits.acquire('stuck', { max: 1 })).release()
      await client.query('begin')
      await client.query(`select from holdfast.limit_state where name = 'stuck' for update`)
      const stuck = holdfast.limits.acquire('stuck', { max: 1 })
      const outcome = await quiet.run(ms)
      await client.query('commit')
      await client.end()
      await (await stuck).release()
      return outcome
    },
  }
  try {
    const outcomes = await runRounds(
      [
        quiet,
        during('64 callers of one other entity', hot),
        during('64 callers of 10,000 other entities', spread),
        locked,
      ],
      { rounds, roundMs, onRound: (round) => progress(`limits: isolation, round ${round + 1} of ${rounds}`) },
    )
    return Object.fromEntries(Object.entries(outcomes).map(([name, all]) => [name, summary(all)]))
  } finally {
    await Promise.all([holdfast.close(), hot.close(), spread.close()])
  }
}

export function showIsolation(report: Awaited<ReturnType<typeof isolation>>) {
  return table(
    ['One caller of a free entity: acquire + release', 'pairs/s', 'p50 ms', 'p99 ms', 'longest ms'],
    Object.entries(report).map(([name, { perSecond, p50Ms, p99Ms, longestMs }]) => [
      name,
      perSecond,
      p50Ms,
      p99Ms,
      longestMs,
    ]),
  )
}
