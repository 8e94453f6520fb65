// Compares rate limit decisions with a handwritten counter that needs one statement.
import { type Options, ratio, runRounds, type Summary, summary } from '../measure.ts'
import { query } from '../server.ts'
import { table } from '../table.ts'
import { tablesByHand } from './callers.ts'
import { fleet } from './fleet.ts'

interface Row {
  what: string
  callers: string
  holdfast: Summary
  byHand: Summary
  ratio: number
}

const crowds = [
  { processes: 1, each: 1 },
  { processes: 1, each: 64 },
  { processes: 2, each: 32 },
]
const kinds = [
  { what: 'one entity', ours: 'rate hot', peer: 'rate by hand hot' },
  { what: 'random of 10,000 entities', ours: 'rate spread', peer: 'rate by hand spread' },
  { what: 'one entity, always refused', ours: 'rate refused', peer: 'rate by hand hot' },
]

export async function rates(url: string, { rounds, roundMs, progress }: Options) {
  await query(url, tablesByHand)
  const report: Row[] = []
  for (const { what, ours, peer } of kinds) {
    for (const crowd of crowds) {
      const callers = `${crowd.processes} × ${crowd.each}`
      const contestants = await Promise.all([ours, peer].map((kind) => fleet(kind, url, kind, crowd)))
      try {
        const outcomes = await runRounds(contestants, {
          rounds,
          roundMs,
          onRound: (round) => progress(`limits: rates, ${what}, ${callers}, round ${round + 1} of ${rounds}`),
        })
        report.push({
          what,
          callers,
          holdfast: summary(outcomes[ours]),
          byHand: summary(outcomes[peer]),
          ratio: ratio(outcomes[ours], outcomes[peer]),
        })
      } finally {
        await Promise.all(contestants.map((contestant) => contestant.close()))
      }
    }
  }
  return report
}

export function showRates(report: Row[]) {
  return table(
    ['Rates: decisions', 'callers', 'per s', 'p50 ms', 'p99 ms', 'by hand', 'p50 ms', 'ratio'],
    report.map(({ what, callers, holdfast, byHand, ratio }) => [
      what,
      callers,
      holdfast.perSecond,
      holdfast.p50Ms,
      holdfast.p99Ms,
      byHand.perSecond,
      byHand.p50Ms,
      ratio,
    ]),
  )
}
