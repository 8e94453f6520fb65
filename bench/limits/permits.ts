// Measures acquire-release pairs for permits: each caller uses its own entity, one common entity, or random entities
// out of 10,000.
import { type Options, ratio, runRounds, type Summary, summary } from '../measure.ts'
import { query } from '../server.ts'
import { table } from '../table.ts'
import { tablesByHand } from './callers.ts'
import { fleet } from './fleet.ts'

interface Row {
  what: string
  callers: string
  holdfast: Summary
  byHand?: Summary
  ratio?: number
}

const crowds = [
  { processes: 1, each: 1 },
  { processes: 1, each: 64 },
  { processes: 2, each: 32 },
]
const kinds: { what: string; ours: string; peer?: string }[] = [
  { what: 'own entity of each caller', ours: 'permit own', peer: 'by hand own' },
  { what: 'random of 10,000 entities', ours: 'permit spread', peer: 'by hand spread' },
  { what: 'one entity, max 1,000', ours: 'permit hot free', peer: 'by hand hot free' },
  { what: 'one entity, max 10, waiting', ours: 'permit hot 10' },
  { what: 'one entity, max 1, waiting', ours: 'permit hot 1' },
]

export async function permits(url: string, { rounds, roundMs, progress }: Options) {
  await query(url, tablesByHand)
  const report: Row[] = []
  for (const { what, ours, peer } of kinds) {
    for (const crowd of crowds) {
      const callers = `${crowd.processes} × ${crowd.each}`
      const contestants = await Promise.all(
        [ours, ...(peer ? [peer] : [])].map((kind) => fleet(kind, url, kind, crowd)),
      )
      try {
        const outcomes = await runRounds(contestants, {
          rounds,
          roundMs,
          onRound: (round) => progress(`limits: ${what}, ${callers}, round ${round + 1} of ${rounds}`),
        })
        report.push({
          what,
          callers,
          holdfast: summary(outcomes[ours]),
          ...(peer && { byHand: summary(outcomes[peer]), ratio: ratio(outcomes[ours], outcomes[peer]) }),
        })
      } finally {
        await Promise.all(contestants.map((contestant) => contestant.close()))
      }
    }
  }
  return report
}

export function showPermits(report: Row[]) {
  return table(
    ['Permits: acquire + release', 'callers', 'pairs/s', 'p50 ms', 'p99 ms', 'by hand', 'p50 ms', 'ratio'],
    report.map(({ what, callers, holdfast, byHand, ratio }) => [
      what,
      callers,
      holdfast.perSecond,
      holdfast.p50Ms,
      holdfast.p99Ms,
      byHand?.perSecond,
      byHand?.p50Ms,
      ratio,
    ]),
  )
}
