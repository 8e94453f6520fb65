// Compares locks.with with acquire and release, in separate processes: the first handler makes Holdfast follow the flow of control, which
// costs the whole process something.
import { type Options, ratio, runRounds, type Summary, summary } from '../measure.ts'
import { type Cell, table } from '../table.ts'
import { fleet } from './hand-offs.ts'

const callers = 64
const goal = 0.8

export async function handlers(url: string, { rounds, roundMs, progress }: Options) {
  const fleets = [await fleet(1, 'handler', url, callers), await fleet(1, 'pair', url, callers)]
  try {
    const { handler, pair } = await runRounds(fleets, {
      rounds,
      roundMs,
      onRound: (round) => progress(`locks: with, round ${round + 1} of ${rounds}`),
    })
    return { handler: summary(handler), pair: summary(pair), ratio: ratio(handler, pair) }
  } finally {
    await Promise.all(fleets.map((each) => each.close()))
  }
}

export function showHandlers({ handler, pair, ratio }: Awaited<ReturnType<typeof handlers>>) {
  const figures = ({ perSecond, p50Ms, p99Ms }: Summary): Cell[] => [perSecond, p50Ms, p99Ms]
  const rows = [
    ['locks.with', ...figures(handler), ratio, `≥ ${goal}`],
    ['locks.acquire + release', ...figures(pair)],
  ]
  return table([`Handlers: ${callers} callers`, 'pairs/s', 'p50 ms', 'p99 ms', 'ratio', 'goal'], rows)
}
