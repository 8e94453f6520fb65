// Compares Holdfast with its best peer. The tables print the goal next to the ratio.
import { median, round3 } from './measure.ts'
import { type Cell, table } from './table.ts'

export interface Comparison<Outcome> {
  figure: string
  read(outcome: Outcome): number | undefined
  peers: string[]
  /** Whether a lower figure is better. */
  isCost?: boolean
  goal: string
}

/** Outcomes of all rounds, by contestant. */
export type Outcomes<Outcome> = Record<string, Outcome[]>

/** Returns a figure's median, or undefined if no round measured it. */
export function middle<Outcome>(rounds: Outcome[] = [], read: (outcome: Outcome) => number | undefined) {
  const values = rounds.map(read).filter((value) => value !== undefined && Number.isFinite(value)) as number[]
  return values.length > 0 ? round3(median(values)) : undefined
}

/** Compares a figure's medians. `ratio` is the median of the rounds' ratios. */
export function compare<Outcome>(
  outcomes: Outcomes<Outcome>,
  { read, peers, isCost = false }: Omit<Comparison<Outcome>, 'figure' | 'goal'>,
) {
  const measured = peers.flatMap((name) => {
    const value = middle(outcomes[name], read)
    return value === undefined ? [] : [{ name, value }]
  })
  measured.sort((a, b) => (isCost ? a.value - b.value : b.value - a.value))
  const [best] = measured
  const ours = outcomes.holdfast ?? []
  return {
    peer: best?.name,
    ours: middle(ours, read),
    theirs: best?.value,
    ratio: best && ratioOf(ours, outcomes[best.name]!, read),
  }
}

/** Returns the median of the rounds' ratios. */
export function ratioOf<Outcome>(ours: Outcome[], theirs: Outcome[], read: Comparison<Outcome>['read']) {
  const ratios = ours.map((one, round) => Number(read(one)) / Number(read(theirs[round]!)))
  return middle(ratios, (ratio) => ratio)
}

export function comparisonRow<Outcome>(outcomes: Outcomes<Outcome>, comparison: Comparison<Outcome>): Cell[] {
  const { peer = 'no peer', ours, theirs, ratio } = compare(outcomes, comparison)
  return [`${comparison.figure}, holdfast : ${peer}`, ours, theirs, ratio, comparison.goal]
}

export function comparisonTable(rows: Cell[][]) {
  return table(['compared with the best peer', 'holdfast', 'peer', 'ratio', 'goal'], rows)
}
