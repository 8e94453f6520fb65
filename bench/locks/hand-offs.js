// One name that everybody wants: how often it changes hands, and how long the unluckiest waits.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { inTurns, ratio, summary } from '../measure.js'
import { table } from '../table.js'

const fleets = [
  { processes: 1, each: 16 },
  { processes: 4, each: 4 },
]

export async function handOffs(url, { rounds, roundMs, progress }) {
  const report = []
  for (const { processes, each } of fleets) {
    const crowd = `${processes} × ${each}`
    const ours = await fleet(processes, 'holdfast', url, each)
    const theirs = await fleet(processes, 'blocking', url, each)
    try {
      const outcomes = await inTurns([ours, theirs], {
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

/** Processes of contenders, as one contestant. */
async function fleet(processes, kind, url, each) {
  const program = new URL('./contenders.js', import.meta.url)
  const children = Array.from({ length: processes }, () => fork(program, [kind, url, String(each)]))
  const message = async (child) => {
    const [answer] = await Promise.race([once(child, 'message'), once(child, 'exit')])
    if (typeof answer !== 'object' || answer === null) throw new Error(`A contender ended with ${answer}`)
    return answer
  }
  await Promise.all(children.map(message))
  return {
    name: kind,
    async run(ms) {
      const answers = children.map(message)
      for (const child of children) child.send({ ms })
      const outcomes = await Promise.all(answers)
      return {
        perSecond: outcomes.reduce((sum, { perSecond }) => sum + perSecond, 0),
        waitsMs: outcomes.flatMap(({ waitsMs }) => waitsMs),
      }
    },
    async close() {
      await Promise.all(
        children.map(async (child) => {
          const gone = once(child, 'exit')
          child.disconnect()
          await gone
        }),
      )
    },
  }
}

export function showHandOffs(report) {
  const rows = report.flatMap(({ crowd, holdfast, blocking, ratio, goal }) => [
    [`holdfast, ${crowd} contenders`, ...figures(holdfast), ratio, `≥ ${goal}`],
    [`pg_advisory_lock, ${crowd} contenders, a connection each`, ...figures(blocking)],
  ])
  const head = ['Contended: one name', 'hand-offs/s', 'p50 ms', 'p99 ms', 'longest ms', 'ratio', 'goal']
  return table(
    head,
    rows.map((row) => [...row, ...Array(head.length - row.length).fill(undefined)]),
  )
}

function figures({ perSecond, p50Ms, p99Ms, longestMs }) {
  return [perSecond, p50Ms, p99Ms, longestMs]
}
