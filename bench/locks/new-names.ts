// Measures acquire-release pairs for names that have never been used before: 1, 64 and 256 callers. Most names of real programs are new,
// such as the number of an invoice.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { loops, type Options, ratio, runRounds, summary } from '../measure.ts'
import { table } from '../table.ts'
import { recipe } from './recipe.ts'

const connections = 20
const goals = { 1: 0.9, 64: 8, 256: 12 }

const nameOf = (kind: string, callers: string) => `${kind}, ${callers} ${callers === '1' ? 'caller' : 'callers'}`
const ours = 'holdfast'
const theirs = `recipe on a pool of ${connections} connections`

export async function newNames(url: string, { rounds, roundMs, progress }: Options) {
  const holdfast = await Holdfast.open({ url, namespace: 'bench' })
  const pool = new pg.Pool({ connectionString: url, max: connections })
  let last = 0
  const contestants = Object.keys(goals).flatMap((callers) => [
    {
      name: nameOf(ours, callers),
      run: (ms: number) =>
        loops(Number(callers), ms, async () => {
          const lock = await holdfast.locks.tryAcquire(`invoice:${++last}`)
          await lock!.release()
        }),
    },
    {
      name: nameOf(theirs, callers),
      run: (ms: number) => loops(Number(callers), ms, () => recipe(pool, ++last)),
    },
  ])
  try {
    const outcomes = await runRounds(contestants, {
      rounds,
      roundMs,
      onRound: (round) => progress(`locks: new names, round ${round + 1} of ${rounds}`),
    })
    return {
      contestants: Object.fromEntries(Object.entries(outcomes).map(([name, all]) => [name, summary(all)])),
      ratios: Object.entries(goals).map(([callers, goal]) => ({
        callers,
        ratio: ratio(outcomes[nameOf(ours, callers)], outcomes[nameOf(theirs, callers)]),
        goal,
      })),
    }
  } finally {
    await Promise.all([holdfast.close(), pool.end()])
  }
}

export function showNewNames({ contestants, ratios }: Awaited<ReturnType<typeof newNames>>) {
  const rates = Object.entries(contestants).map(([name, one]) => [name, one.perSecond, one.p50Ms, one.p99Ms])
  const compared = ratios.map(({ callers, ratio, goal }) => [`${nameOf(ours, callers)} : recipe`, ratio, `≥ ${goal}`])
  return [
    table(['New names: acquire + release', 'pairs/s', 'p50 ms', 'p99 ms'], rates),
    table(['compared', 'ratio', 'goal'], compared),
  ].join('\n\n')
}
