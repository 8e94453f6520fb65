// Measures acquire-release pairs for uncontended leases: 1, 8 and 64 callers in one process, and 64 callers in each of
// two processes.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { loops, type Options, type Outcome, ratio, runRounds, summary } from '../measure.ts'
import { query } from '../server.ts'
import { table } from '../table.ts'
import { byHand, type Callers, type Kind, kinds } from './callers.ts'

const callers = [1, 8, 64]
const inEach = 64
const program = fileURLToPath(new URL('./callers.ts', import.meta.url))

const nameOf = (kind: Kind, count: number) => `${kind}, ${count} ${count === 1 ? 'caller' : 'callers'}`
const nameOfTwo = (kind: Kind) => `${kind}, 2 processes of ${inEach} callers`

async function twoProcesses(kind: Kind, url: string) {
  const processes = [1, 2].map(() => fork(program, [kind, url, String(inEach)]))
  await Promise.all(processes.map((child) => once(child, 'message')))
  return {
    name: nameOfTwo(kind),
    async run(ms: number) {
      for (const child of processes) child.send({ ms })
      const replies = await Promise.all(processes.map((child) => once(child, 'message')))
      const outcomes = replies.map(([outcome]) => outcome as Outcome)
      return {
        perSecond: outcomes.reduce((sum, { perSecond }) => sum + perSecond, 0),
        waitsMs: outcomes.flatMap(({ waitsMs }) => waitsMs),
      }
    },
    close() {
      for (const child of processes) child.disconnect()
      return Promise.all(processes.map((child) => once(child, 'exit')))
    },
  }
}

export async function pairs(url: string, { rounds, roundMs, progress }: Options) {
  const holdfast = await kinds.holdfast(url, 'one')
  await query(url, byHand.table)
  const hand = await kinds['by hand'](url, 'one')
  const two = [await twoProcesses('holdfast', url), await twoProcesses('by hand', url)]
  const contestant = (kind: Kind, { once }: Callers, count: number) => ({
    name: nameOf(kind, count),
    run: (ms: number) => loops(count, ms, once),
  })
  try {
    const contestants = [
      ...callers.flatMap((count) => [contestant('holdfast', holdfast, count), contestant('by hand', hand, count)]),
      ...two,
    ]
    const outcomes = await runRounds(contestants, {
      rounds,
      roundMs,
      onRound: (round) => progress(`leases: pairs, round ${round + 1} of ${rounds}`),
    })
    const compared = [...callers.map((count) => (kind: Kind) => nameOf(kind, count)), nameOfTwo]
    return {
      contestants: Object.fromEntries(Object.entries(outcomes).map(([name, all]) => [name, summary(all)])),
      ratios: compared.map((name) => ({
        ours: name('holdfast'),
        peer: name('by hand'),
        ratio: ratio(outcomes[name('holdfast')], outcomes[name('by hand')]),
      })),
    }
  } finally {
    await Promise.all([holdfast.close(), hand.close(), ...two.map((each) => each.close())])
  }
}

export function showPairs({ contestants, ratios }: Awaited<ReturnType<typeof pairs>>) {
  const rates = Object.entries(contestants).map(([name, { perSecond, p50Ms, p99Ms }]) => [
    name,
    perSecond,
    p50Ms,
    p99Ms,
  ])
  const compared = ratios.map(({ ours, peer, ratio }) => [`${ours} : ${peer}`, ratio])
  return [
    table(['Uncontended leases: acquire + release', 'pairs/s', 'p50 ms', 'p99 ms'], rates),
    table(['compared', 'ratio'], compared),
  ].join('\n\n')
}
