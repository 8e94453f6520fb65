// Compares the job queue with the common job queues, and with the same statements in plain SQL. The contestants run in alternating rounds, each
// time on a fresh server with the same settings.
import { type Comparison, comparisonRow, comparisonTable, middle, type Outcomes } from './compare.ts'
import { backlog, showBacklog } from './jobs/backlog.ts'
import { contestants, describeContestants, postgresPeers, present } from './jobs/contestants.ts'
import { comparedWithPlain } from './jobs/plain.ts'
import { latency, singleEnqueues } from './jobs/singles.ts'
import { drain, showThroughput, sustain, type Throughput } from './jobs/throughput.ts'
import { alternate, type Options } from './measure.ts'
import { installPeers } from './peers/install.ts'
import { type Cell, table } from './table.ts'

interface Load {
  run(name: string, options: { seconds: number; jobs: number; delayed: number }): Promise<Throughput>
  atDefaults?: boolean
  once?: boolean
  takesBulk?: boolean
  hasLanes?: boolean
}

/** One round's single enqueues and latency. */
type SingleJobs = Awaited<ReturnType<typeof singleEnqueues>> & Awaited<ReturnType<typeof latency>>

/** Contestants with default settings take part only in the loads with `atDefaults`. */
const loads: Record<string, Load> = {
  sustained: { run: (name, { seconds }) => sustain(name, { seconds }), atDefaults: true },
  'sustained, 2 processes': { run: (name, { seconds }) => sustain(name, { seconds, processes: 2 }) },
  'sustained, with an old snapshot open': {
    run: (name, { seconds }) => sustain(name, { seconds: 2 * seconds, isSnapshotOpen: true }),
  },
  drained: { run: (name, { jobs }) => drain(name, { jobs }) },
  'drained, 2 processes': { run: (name, { jobs }) => drain(name, { jobs, processes: 2 }) },
  'drained, handlers of 10 ms, 50 concurrent jobs': {
    run: (name, { jobs }) => drain(name, { jobs: jobs / 4, handlerMs: 10, concurrency: 50 }),
  },
  'drained, payloads of 10 kB': { run: (name, { jobs }) => drain(name, { jobs: jobs / 4, bytes: 10_000 }) },
  'drained, payloads of 10 kB, random': {
    run: (name, { jobs }) => drain(name, { jobs: jobs / 4, bytes: 10_000, isRandom: true }),
  },
  'drained, behind many delayed jobs': {
    run: (name, { jobs, delayed }) => drain(name, { jobs, delayed }),
    once: true,
    takesBulk: true,
  },
  'drained, behind a hot lane': {
    run: (name, { jobs }) => drain(name, { jobs: jobs / 2, hot: 100_000 }),
    once: true,
    hasLanes: true,
  },
}

/** Runs the parts whose names contain `options.part`, and prints each part's table as soon as the part has ended. */
export async function run(_: string, { rounds, roundMs, delayed, part, progress, print }: Options) {
  const seconds = Math.max(4, roundMs / 1_000)
  const options = { seconds, jobs: 40_000, delayed }
  const isWanted = (name: string) => name.includes(part)
  const versions = installPeers(progress)
  const { names, absent } = present()
  const described = await describeContestants(names, { versions, absent })
  print(
    `${described}\nDrained: ${options.jobs} jobs, for at most 20 s; half of them behind a hot lane of 100,000 jobs, a quarter of them with handlers of 10 ms or payloads of 10 kB; ${delayed} delayed jobs. Sustained: ${seconds} s.`,
  )
  const throughput: Record<string, Outcomes<Throughput>> = {}
  for (const [load, { run, atDefaults, once, takesBulk, hasLanes }] of Object.entries(loads)) {
    if (!isWanted(load)) continue
    const takesPart = (name: string) => {
      const { how, hasNoBulk, hasNoLanes } = contestants[name]!
      return (
        (atDefaults || how !== 'defaults' || name === 'holdfast') &&
        !(takesBulk && hasNoBulk) &&
        !(hasLanes && hasNoLanes)
      )
    }
    throughput[load] = await alternate(names.filter(takesPart), once ? 1 : rounds, (name, round) => {
      progress(`jobs: ${load}, round ${round}: ${name}`)
      return run(name, options)
    })
    print(showThroughput(load, throughput[load]))
  }
  let singles: Outcomes<SingleJobs> | undefined
  if (isWanted('single jobs')) {
    singles = await alternate(names, rounds, async (name, round) => {
      progress(`jobs: single jobs, round ${round}: ${name}`)
      const isSlow = name.endsWith('defaults')
      return { ...(await singleEnqueues(name, 1_500)), ...(await latency(name, isSlow ? 10 : 100)) }
    })
    print(showSingles(singles))
  }
  const rows: Cell[][] = []
  if (isWanted('plain SQL')) {
    progress('jobs: compared with plain SQL')
    const plain = await comparedWithPlain({ rounds, seconds: Math.max(2, roundMs / 1_000) })
    rows.push(
      ['jobs/s of one worker, alternating with plain SQL', plain.perSecond, ''],
      ['jobs/s of the same statements in plain SQL', plain.plainPerSecond, ''],
      ['ratio', plain.ratio, '≥ 0.5'],
    )
  }
  if (isWanted('backlog')) {
    progress('jobs: claims from a backlog of two million jobs')
    rows.push(...showBacklog(await backlog()))
  }
  return { options, described, throughput, singles, rows }
}

const peers = [...postgresPeers, 'BullMQ on Redis']
const defaults = peers.filter((name) => name !== 'advisory lock per job').map((name) => `${name}, defaults`)
const perSecond = (one: Throughput) => one.perSecond

const throughputGoals: ({ load: string } & Comparison<Throughput>)[] = [
  { load: 'sustained', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 3' },
  { load: 'sustained', figure: 'jobs/s, peers with defaults', read: perSecond, peers: defaults, goal: '≥ 10' },
  { load: 'sustained', figure: 'server µs', read: ({ each }) => each.serverUs, peers, isCost: true, goal: '≤ 1' },
  { load: 'sustained', figure: 'WAL bytes', read: ({ each }) => each.walBytes, peers, isCost: true, goal: '≤ 1' },
  { load: 'sustained', figure: 'dead rows', read: ({ each }) => each.deadRows, peers, isCost: true, goal: '≤ 1' },
  { load: 'sustained, 2 processes', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
  { load: 'sustained, with an old snapshot open', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
  { load: 'drained', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 2' },
  { load: 'drained, 2 processes', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
  { load: 'drained, payloads of 10 kB', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
  { load: 'drained, payloads of 10 kB, random', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
]

const singleGoals: Comparison<SingleJobs>[] = [
  { figure: 'enqueue to start, p50 ms', read: ({ p50Ms }) => p50Ms, peers: postgresPeers, isCost: true, goal: '≤ 1' },
  { figure: 'enqueue to start, p99 ms', read: ({ p99Ms }) => p99Ms, peers: postgresPeers, isCost: true, goal: '≤ 1' },
  {
    figure: 'single enqueues/s, 1 caller',
    read: ({ onePerSecond }) => onePerSecond,
    peers: postgresPeers,
    goal: '≥ 1',
  },
  { figure: 'single enqueues/s, 32 callers', read: ({ perSecond }) => perSecond, peers, goal: '≥ 1' },
]

function showSingles(singles: Outcomes<SingleJobs>) {
  const rows = Object.entries(singles).map(([name, rounds]) => [
    name,
    middle(rounds, ({ onePerSecond }) => onePerSecond),
    middle(rounds, ({ perSecond }) => perSecond),
    middle(rounds, ({ p50Ms }) => p50Ms),
    middle(rounds, ({ p99Ms }) => p99Ms),
  ])
  return table(['Single jobs', 'enqueues/s, 1 caller', '32 callers', 'enqueue to start, p50 ms', 'p99 ms'], rows)
}

export function show({ throughput, singles, rows }: Awaited<ReturnType<typeof run>>) {
  const compared = throughputGoals
    .filter(({ load }) => throughput[load])
    .map(({ load, figure, ...goal }) => comparisonRow(throughput[load]!, { ...goal, figure: `${load}: ${figure}` }))
  if (singles) compared.push(...singleGoals.map((goal) => comparisonRow(singles, goal)))
  return [
    ...(compared.length > 0 ? [comparisonTable(compared)] : []),
    ...(rows.length > 0 ? [table(['Jobs', 'figure', 'goal'], rows)] : []),
  ].join('\n\n')
}
