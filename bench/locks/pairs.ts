// Measures acquire-release pairs for uncontended locks: 1, 64 and 256 callers, each with its own name.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { loops, type Options, ratio, runRounds, summary } from '../measure.ts'
import { table } from '../table.ts'
import { recipe } from './recipe.ts'

const oneAtATime = 'recipe, 1 caller, 1 connection'
const manyAtOnce = 'recipe, 64 callers, 64 connections'

const goals: { ours: string; peer: string; goal?: number }[] = [
  { ours: 'holdfast, 1 caller', peer: oneAtATime, goal: 0.9 },
  { ours: 'holdfast, 64 callers', peer: oneAtATime, goal: 8 },
  { ours: 'holdfast, 64 callers', peer: manyAtOnce },
  { ours: 'holdfast, 256 callers', peer: oneAtATime, goal: 15 },
  { ours: 'holdfast, 256 callers', peer: manyAtOnce },
]

export async function pairs(url: string, { rounds, roundMs, progress }: Options) {
  const holdfast = await Holdfast.open({ url, namespace: 'bench' })
  const single = new pg.Pool({ connectionString: url, max: 1 })
  const many = new pg.Pool({ connectionString: url, max: 64 })
  const ours = (callers: number) => ({
    name: callers === 1 ? 'holdfast, 1 caller' : `holdfast, ${callers} callers`,
    run: (ms: number) =>
      loops(callers, ms, async (caller) => {
        const lock = await holdfast.locks.tryAcquire(`name:${caller}`)
        await lock!.release()
      }),
  })
  const theirs = (name: string, pool: pg.Pool, callers: number) => ({
    name,
    run: (ms: number) => loops(callers, ms, (caller) => recipe(pool, caller)),
  })
  try {
    const outcomes = await runRounds(
      [ours(1), theirs(oneAtATime, single, 1), ours(64), theirs(manyAtOnce, many, 64), ours(256)],
      { rounds, roundMs, onRound: (round) => progress(`locks: pairs, round ${round + 1} of ${rounds}`) },
    )
    return {
      contestants: Object.fromEntries(Object.entries(outcomes).map(([name, all]) => [name, summary(all)])),
      ratios: goals.map((goal) => ({ ...goal, ratio: ratio(outcomes[goal.ours], outcomes[goal.peer]) })),
    }
  } finally {
    await Promise.all([holdfast.close(), single.end(), many.end()])
  }
}

export function showPairs({ contestants, ratios }: Awaited<ReturnType<typeof pairs>>) {
  const rates = Object.entries(contestants).map(([name, { perSecond, p50Ms, p99Ms }]) => [
    name,
    perSecond,
    p50Ms,
    p99Ms,
  ])
  const compared = ratios.map(({ ours, peer, ratio, goal }) => [`${ours} : ${peer}`, ratio, goal && `≥ ${goal}`])
  return [
    table(['Uncontended: acquire + release', 'pairs/s', 'p50 ms', 'p99 ms'], rates),
    table(['compared', 'ratio', 'goal'], compared),
  ].join('\n\n')
}
