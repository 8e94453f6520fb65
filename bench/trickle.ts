// Measures the cost of single jobs that arrive at a slow, constant rate. CPU times cover the whole server, including
// its background processes. The contestants run in alternating rounds, each time on a fresh server with the same
// settings.
import { setTimeout as sleep } from 'node:timers/promises'
import { comparisonRow, comparisonTable, middle, type Outcomes } from './compare.ts'
import { ownCpuMs } from './cpu.ts'
import { describeContestants, present } from './jobs/contestants.ts'
import { each, withFixture } from './jobs/fixture.ts'
import { alternate, type Options, percentile } from './measure.ts'
import { installPeers } from './peers/install.ts'
import { table } from './table.ts'

interface Pace {
  jobs: number
  everyMs: number
}

const peers = ['graphile-worker', 'graphile-worker, defaults']
const paces: Pace[] = [
  { jobs: 600, everyMs: 100 },
  { jobs: 500, everyMs: 60 },
]
/** Jobs before the measurement, which open connections and fill caches. */
const warmUp: Pace = { jobs: 20, everyMs: 60 }
const restMs = 2_000

export async function run(_: string, { rounds, progress }: Options) {
  const versions = installPeers(progress)
  const { names, absent } = present(['holdfast', ...peers])
  const loads: { pace: Pace; outcomes: Outcomes<Trickle> }[] = []
  for (const pace of paces) {
    const outcomes = await alternate(names, rounds, (name, round) => {
      progress(`trickle: ${titleOf(pace)}, round ${round}: ${name}`)
      return trickle(name, pace)
    })
    loads.push({ pace, outcomes })
  }
  return { loads, described: await describeContestants(names, { versions, absent }) }
}

type Trickle = Awaited<ReturnType<typeof trickle>>

export function trickle(name: string, pace: Pace) {
  return withFixture(name, async ({ queue, workers, usage }) => {
    const crew = await workers()
    crew.begin()
    let enqueued = 0
    const send = async ({ jobs, everyMs }: Pace) => {
      const from = performance.now()
      const pending: Promise<unknown>[] = []
      for (let at = 0; at < jobs; at++) {
        await sleep(from + at * everyMs - performance.now())
        pending.push(queue.enqueue({ at, sentAt: Date.now() }))
      }
      await Promise.all(pending)
      enqueued += jobs
      while (crew.done() < enqueued) await sleep(5)
    }
    await send(warmUp)
    await sleep(restMs)
    crew.takeWaits()
    const [before, cpuMs] = [await usage(), crew.cpuMs() + ownCpuMs()]
    await send(pace)
    const clientMs = crew.cpuMs() + ownCpuMs() - cpuMs
    const cost = each(before, await usage(), pace.jobs, clientMs)
    const waits = crew.takeWaits()
    return { ...cost, p50Ms: percentile(waits, 50), p99Ms: percentile(waits, 99) }
  })
}

export function show({ loads, described }: Awaited<ReturnType<typeof run>>) {
  const columns = ['server µs', 'clients µs', 'WAL bytes', 'statements', 'enqueue to start, p50 ms', 'p99 ms']
  const tables = loads.map(({ pace, outcomes }) =>
    table(
      [titleOf(pace), ...columns],
      Object.entries(outcomes).map(([name, rounds]) => [
        name,
        middle(rounds, ({ serverUs }) => serverUs),
        middle(rounds, ({ clientUs }) => clientUs),
        middle(rounds, ({ walBytes }) => walBytes),
        middle(rounds, ({ statements }) => statements),
        middle(rounds, ({ p50Ms }) => p50Ms),
        middle(rounds, ({ p99Ms }) => p99Ms),
      ]),
    ),
  )
  const rows = loads.map(({ pace, outcomes }) =>
    comparisonRow(outcomes, {
      figure: `${titleOf(pace)}: server µs per job`,
      read: ({ serverUs }) => serverUs,
      peers,
      isCost: true,
      goal: '≤ 1',
    }),
  )
  return [`${described}\nOne worker process.`, ...tables, comparisonTable(rows)].join('\n\n')
}

function titleOf({ jobs, everyMs }: Pace) {
  return `${jobs} jobs, one every ${everyMs} ms`
}
