// Measures throughput for different numbers of worker processes, and for different concurrency settings in one process.
// The contestants run in alternating rounds, each time on a fresh server with the same settings.
import { compare, middle, type Outcomes, ratioOf } from './compare.ts'
import { describeContestants, present } from './jobs/contestants.ts'
import { drain, type Throughput } from './jobs/throughput.ts'
import type { Options } from './measure.ts'
import { installPeers } from './peers/install.ts'
import { type Cell, table } from './table.ts'

const peers = ['graphile-worker', 'pg-boss']
const processCounts = [1, 2, 4, 8]
const totalConcurrency = 64
const concurrencies = [4, 8, 16, 32, 64, 128, 256]
const handlerMs = 10
const maxJobs = 40_000
/** Eight processes of some peers need more than 100 connections. */
const server = { settings: { max_connections: '400' } }

interface Point {
  count: number
  outcomes: Outcomes<Throughput>
}

export async function run(_: string, { rounds, progress }: Options) {
  const versions = installPeers(progress)
  const { names, absent } = present(['holdfast', ...peers])
  const measure = async (counts: number[], what: string, load: (count: number) => Parameters<typeof drain>[1]) => {
    const points = counts.map((count): Point => ({ count, outcomes: {} }))
    for (let round = 1; round <= rounds; round++) {
      for (const { count, outcomes } of points) {
        for (const name of names) {
          progress(`curves: ${count} ${what}, round ${round}: ${name}`)
          outcomes[name] ??= []
          outcomes[name].push(await drain(name, { ...load(count), server }))
        }
      }
    }
    return points
  }
  return {
    processes: await measure(processCounts, 'processes', (processes) => ({
      jobs: maxJobs,
      processes,
      concurrency: totalConcurrency / processes,
    })),
    // This is about four seconds of work, if the queue adds nothing to the handlers' time.
    workers: await measure(concurrencies, 'workers', (concurrency) => ({
      jobs: Math.min(maxJobs, (concurrency * 4_000) / handlerMs),
      concurrency,
      handlerMs,
    })),
    described: await describeContestants(names, { versions, absent }),
  }
}

const perSecond = (one: Throughput) => one.perSecond

export function show({ processes, workers, described }: Awaited<ReturnType<typeof run>>) {
  const title = `Processes, ${totalConcurrency} jobs at the same time in total`
  return [
    `${described}\nmax_connections ${server.settings.max_connections}. Drained: ${maxJobs} jobs without work; up to ${maxJobs} jobs with handlers of ${handlerMs} ms.`,
    curve(title, processes),
    curve(`Jobs at the same time in one process, handlers of ${handlerMs} ms`, workers),
    table(
      ['holdfast alone', 'ratio', 'goal'],
      processes
        .slice(1)
        .map(({ count, outcomes }) => [
          `jobs/s of ${count} processes : 1 process`,
          ratioOf(outcomes.holdfast!, processes[0]!.outcomes.holdfast!, perSecond),
          '≥ 1',
        ]),
    ),
  ].join('\n\n')
}

function curve(title: string, points: Point[]) {
  const names = Object.keys(points[0]!.outcomes)
  const rows = points.map(({ count, outcomes }): Cell[] => {
    const { peer, ratio } = compare(outcomes, { read: perSecond, peers })
    return [
      `${count}`,
      ...names.map((name) => middle(outcomes[name], perSecond)),
      ...names.map((name) => middle(outcomes[name], ({ each }) => each.serverUs)),
      peer,
      ratio,
      '≥ 1',
    ]
  })
  const head = [...names.map((name) => `${name}, jobs/s`), ...names.map((name) => `${name}, server µs`)]
  return table([title, ...head, 'best peer', 'ratio', 'goal'], rows)
}
