// Compares Holdfast with PgQ on the same version of PostgreSQL. PgQ acknowledges whole batches, so it is a reference for the cost of a job and
// not a job queue with the same features. The contestants run in alternating rounds, each time on a fresh server with the same settings.
import { type Comparison, comparisonRow, comparisonTable, type Outcomes } from './compare.ts'
import { describeContestants, present } from './jobs/contestants.ts'
import { drain, showThroughput, sustain, type Throughput } from './jobs/throughput.ts'
import { alternate, type Options } from './measure.ts'
import { pgqBinDir } from './peers/pgq.ts'
import { benchDatabase, circumstances, describeCircumstances } from './server.ts'

const contestants = ['holdfast', 'holdfast, batch handlers', 'PgQ']
const jobs = 40_000
const server = { binDir: pgqBinDir }
const versions = { PgQ: 'of the package postgresql-15-pgq3' }

export async function run(_: string, { rounds, roundMs, progress }: Options) {
  const { names, absent } = present(contestants)
  // Without PgQ there is nothing to compare. PostgreSQL 15 may also be missing.
  if (absent.PgQ) return { absent, measured: undefined }
  const seconds = Math.max(4, roundMs / 1_000)
  const loads: Record<string, (name: string) => Promise<Throughput>> = {
    sustained: (name) => sustain(name, { seconds, server }),
    'sustained, with an old snapshot open': (name) =>
      sustain(name, { seconds: 2 * seconds, isSnapshotOpen: true, server }),
    drained: (name) => drain(name, { jobs, server }),
  }
  const throughput: Record<string, Outcomes<Throughput>> = {}
  for (const [load, measure] of Object.entries(loads)) {
    throughput[load] = await alternate(names, rounds, (name, round) => {
      progress(`batches: ${load}, round ${round}: ${name}`)
      return measure(name)
    })
  }
  const database = await benchDatabase(server)
  try {
    const described = await describeContestants(names, { versions, absent })
    const found = await circumstances(database.url, pgqBinDir)
    return { absent, measured: { seconds, throughput, circumstances: found, described } }
  } finally {
    await database.close()
  }
}

const goals: (Omit<Comparison<Throughput>, 'peers'> & { load: string })[] = [
  { load: 'sustained', figure: 'jobs/s', read: ({ perSecond }) => perSecond, goal: '' },
  { load: 'sustained', figure: 'server µs', read: ({ each }) => each.serverUs, isCost: true, goal: '' },
  { load: 'sustained', figure: 'WAL bytes', read: ({ each }) => each.walBytes, isCost: true, goal: '' },
  { load: 'drained', figure: 'jobs/s', read: ({ perSecond }) => perSecond, goal: '' },
]

export function show({ absent, measured }: Awaited<ReturnType<typeof run>>) {
  if (!measured) return `Batches were not measured: ${absent.PgQ}`
  const { throughput, seconds, described, circumstances } = measured
  return [
    `${describeCircumstances(circumstances)}\n${described}\nSustained: ${seconds} s; drained: ${jobs} jobs.`,
    ...Object.entries(throughput).map(([load, outcomes]) => showThroughput(load, outcomes)),
    comparisonTable(
      goals.map(({ load, figure, ...goal }) =>
        comparisonRow(throughput[load]!, { ...goal, figure: `${load}: ${figure}`, peers: ['PgQ'] }),
      ),
    ),
  ].join('\n\n')
}
