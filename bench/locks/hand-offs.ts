// Measures contended locks: how often one lock passes from one contender to the next, and the longest wait.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { type Options, type Outcome, ratio, runRounds, type Summary, summary } from '../measure.ts'
import { type Cell, table } from '../table.ts'

interface Row {
  crowd: string
  holdfast: Summary
  blocking: Summary
  ratio: number
  goal: number
}

const fleets = [
  { processes: 1, each: 16 },
  { processes: 4, each: 4 },
]

export async function handOffs(url: string, { rounds, roundMs, progress }: Options) {
  const report: Row[] = []
  for (const { processes, each } of fleets) {
    const crowd = `${processes} × ${each}`
    const ours = await fleet(processes, 'holdfast', url, each)
    const theirs = await fleet(processes, 'blocking', url, each)
    try {
      const outcomes = await runRounds([ours, theirs], {
        rounds,
        roundMs: roundMs * 2,
        onRound: (round) => progress(`locks: hand-offs, ${crowd}, round ${round + 1} of ${rounds}`),
      })
      report.push({
        crowd,
        holdfast: summary(outcomes.holdfast),
        blocking: summary(outcomes.blocking),
        ratio: ratio(outcomes.holdfast, outcomes.blocking),
        goal: 0.8,
      })
    } finally {
      await Promise.all([ours.close(), theirs.close()])
    }
  }
  return report
}

/** Runs several processes of contenders as one contestant. */
export async function fleet(processes: number, kind: string, url: string, each: number) {
  const program = new URL('./contenders.ts', import.meta.url)
  const children = Array.from({ length: processes }, () => fork(program, [kind, url, String(each)]))
  const message = async (child: ChildProcess): Promise<Outcome> => {
    const [reply] = await Promise.race([once(child, 'message'), once(child, 'exit')])
    if (typeof reply !== 'object' || reply === null) throw new Error(`A contender ended with ${reply}`)
    return reply
  }
  await Promise.all(children.map(message))
  return {
    name: kind,
    async run(ms: number) {
      const replies = children.map(message)
      for (const child of children) child.send({ ms })
      const outcomes = await Promise.all(replies)
      return {
        perSecond: outcomes.reduce((sum, { perSecond }) => sum + perSecond, 0),
        waitsMs: outcomes.flatMap(({ waitsMs }) => waitsMs),
      }
    },
    async close() {
      await Promise.all(
        children.map(async (child) => {
          const exit = once(child, 'exit')
          child.disconnect()
          await exit
        }),
      )
    },
  }
}

export function showHandOffs(report: Row[]) {
  const rows = report.flatMap(({ crowd, holdfast, blocking, ratio, goal }): Cell[][] => [
    [`holdfast, ${crowd} contenders`, ...figures(holdfast), ratio, `≥ ${goal}`],
    [`pg_advisory_lock, ${crowd} contenders, a connection each`, ...figures(blocking)],
  ])
  const head = ['Contended: one name', 'hand-offs/s', 'p50 ms', 'p99 ms', 'longest ms', 'ratio', 'goal']
  return table(head, rows)
}

function figures({ perSecond, p50Ms, p99Ms, longestMs }: Summary): Cell[] {
  return [perSecond, p50Ms, p99Ms, longestMs]
}
