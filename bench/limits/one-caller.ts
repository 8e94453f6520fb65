// Compares a single caller with handwritten statements: throughput, round trips and server time per call. The ratio is measured twice.
// Limits do not wait for the disk, but a handwritten statement does, unless synchronous_commit is off.
import { type Cost, costDatabase, costPerCall } from '../cost.ts'
import { type Options, ratio, runRounds, type Summary, summary } from '../measure.ts'
import { query } from '../server.ts'
import { table } from '../table.ts'
import { openCallers, tablesByHand } from './callers.ts'
import { fleet } from './fleet.ts'

interface Row {
  what: string
  goal: string
  holdfast: Summary
  byHand: Summary
  ratio: number
  /** Ratio to the statements with `synchronous_commit = off`. */
  unflushedRatio: number
  /** Undefined if the server does not count statements. */
  cost: { holdfast: Cost; byHand: Cost } | undefined
}

const kinds = [
  { what: 'permit: acquire + release', ours: 'permit own', peer: 'by hand own', goal: '≥ 0.6' },
  { what: 'rate: decision', ours: 'rate hot', peer: 'rate by hand hot', goal: '≥ 0.8' },
  { what: 'rate: refusal', ours: 'rate refused', peer: 'rate by hand hot', goal: '' },
]

export async function oneCaller(url: string, { rounds, roundMs, progress }: Options) {
  await query(url, tablesByHand)
  const report: Row[] = []
  const unflushed = `${url}?options=-c%20synchronous_commit%3Doff`
  for (const { what, ours, peer, goal } of kinds) {
    const crowd = { processes: 1, each: 1 }
    const contestants = await Promise.all([
      fleet(ours, url, ours, crowd),
      fleet(peer, url, peer, crowd),
      fleet('unflushed', unflushed, peer, crowd),
    ])
    try {
      const outcomes = await runRounds(contestants, {
        rounds,
        roundMs,
        onRound: (round) => progress(`limits: one caller, ${what}, round ${round + 1} of ${rounds}`),
      })
      report.push({
        what,
        goal,
        holdfast: summary(outcomes[ours]),
        byHand: summary(outcomes[peer]),
        ratio: ratio(outcomes[ours], outcomes[peer]),
        unflushedRatio: ratio(outcomes[ours], outcomes.unflushed),
        cost: await costs(ours, peer),
      })
    } finally {
      await Promise.all(contestants.map((contestant) => contestant.close()))
    }
  }
  return report
}

async function costs(ours: string, peer: string): Promise<Row['cost']> {
  const database = await costDatabase()
  if (!database) return undefined
  const { url } = database
  const costOf = async (kind: string) => {
    const callers = await openCallers(kind, url)
    try {
      return await costPerCall(url, () => callers.once(0))
    } finally {
      await callers.close()
    }
  }
  try {
    await query(url, tablesByHand)
    return { holdfast: await costOf(ours), byHand: await costOf(peer) }
  } finally {
    await database.close()
  }
}

export function showOneCaller(report: Row[]) {
  return table(
    [
      'One caller',
      'per s',
      'by hand',
      'ratio',
      'by hand unflushed: ratio',
      'goal',
      'round trips',
      'by hand',
      'server ms',
      'by hand',
    ],
    report.map(({ what, goal, holdfast, byHand, ratio, unflushedRatio, cost }) => [
      what,
      holdfast.perSecond,
      byHand.perSecond,
      ratio,
      unflushedRatio,
      goal,
      cost?.holdfast.roundTrips,
      cost?.byHand.roundTrips,
      cost?.holdfast.serverMs,
      cost?.byHand.serverMs,
    ]),
  )
}
