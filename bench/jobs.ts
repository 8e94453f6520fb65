// Jobs beside the queues that people use, and beside the same statements in plain SQL. Contestants take turns, round after round, each
// time on a fresh server with the same settings.
import { type Comparison, comparisonRow, comparisonTable, middle, type Outcomes } from './compare.ts'
import { backlog, showBacklog } from './jobs/backlog.ts'
import { contestants, describeContestants, postgresPeers, present } from './jobs/contestants.ts'
import { latency, singles } from './jobs/ends.ts'
import { besidePlain } from './jobs/plain.ts'
import { drain, showThrough, sustain, type Through } from './jobs/through.ts'
import { alternate, type Options } from './measure.ts'
import { installPeers } from './peers/install.ts'
import { table } from './table.ts'

interface Load {
  run(name: string, options: { seconds: number; jobs: number; delayed: number }): Promise<Through>
  atDefaults?: boolean
  once?: boolean
  takesBulk?: boolean
  hasLanes?: boolean
}

/** Single enqueues and latency, of one round. */
type End = Awaited<ReturnType<typeof singles>> & Awaited<ReturnType<typeof latency>>

/** Contestants with default settings take part only in the loads with `atDefaults`. */
const loads: Record<string, Load> = {
  sustained: { run: (name, { seconds }) => sustain(name, { seconds }), atDefaults: true },
  'sustained, 2 processes': { run: (name, { seconds }) => sustain(name, { seconds, processes: 2 }) },
  'sustained, a snapshot forgotten elsewhere': {
    run: (name, { seconds }) => sustain(name, { seconds: 2 * seconds, isSnapshotOpen: true }),
  },
  drained: { run: (name, { jobs }) => drain(name, { jobs }) },
  'drained, 2 processes': { run: (name, { jobs }) => drain(name, { jobs, processes: 2 }) },
  'drained, handlers of 10 ms, 50 at once': {
    run: (name, { jobs }) => drain(name, { jobs: jobs / 4, handlerMs: 10, concurrency: 50 }),
  },
  'drained, payloads of 10 kB': { run: (name, { jobs }) => drain(name, { jobs: jobs / 4, bytes: 10_000 }) },
  'drained, payloads of 10 kB, random': {
    run: (name, { jobs }) => drain(name, { jobs: jobs / 4, bytes: 10_000, isRandom: true }),
  },
  'drained, behind many that are delayed': {
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

export async function run(_: string, { rounds, roundMs, delayed, progress }: Options) {
  const seconds = Math.max(4, roundMs / 1_000)
  const options = { seconds, jobs: 40_000, delayed }
  const versions = installPeers(progress)
  const { names, absent } = present()
  const through: Record<string, Outcomes<Through>> = {}
  for (const [load, { run, atDefaults, once, takesBulk, hasLanes }] of Object.entries(loads)) {
    const meets = (name: string) => {
      const { how, hasNoBulk, hasNoLanes } = contestants[name]!
      return (
        (atDefaults || how !== 'defaults' || name === 'holdfast') &&
        !(takesBulk && hasNoBulk) &&
        !(hasLanes && hasNoLanes)
      )
    }
    through[load] = await alternate(names.filter(meets), once ? 1 : rounds, (name, round) => {
      progress(`jobs: ${load}, round ${round}: ${name}`)
      return run(name, options)
    })
  }
  const ends: Outcomes<End> = await alternate(names, rounds, async (name, round) => {
    progress(`jobs: single enqueues and latency, round ${round}: ${name}`)
    const isSlow = name.endsWith('defaults')
    return { ...(await singles(name, 1_500)), ...(await latency(name, isSlow ? 10 : 100)) }
  })
  progress('jobs: beside plain SQL')
  const beside = await besidePlain({ rounds, seconds: Math.max(2, roundMs / 1_000) })
  progress('jobs: a claim before two million jobs')
  const claim = await backlog()
  const described = await describeContestants(names, { versions, absent })
  return { options, described, through, ends, beside, claim }
}

const peers = [...postgresPeers, 'BullMQ on Redis']
const defaults = peers.filter((name) => name !== 'advisory lock per job').map((name) => `${name}, defaults`)
const perSecond = (one: Through) => one.perSecond

const throughGoals: ({ load: string } & Comparison<Through>)[] = [
  { load: 'sustained', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 3' },
  { load: 'sustained', figure: 'jobs/s, peers at defaults', read: perSecond, peers: defaults, goal: '≥ 10' },
  { load: 'sustained', figure: 'server µs', read: ({ each }) => each.serverUs, peers, isCost: true, goal: '≤ 1' },
  { load: 'sustained', figure: 'WAL bytes', read: ({ each }) => each.walBytes, peers, isCost: true, goal: '≤ 1' },
  { load: 'sustained', figure: 'dead rows', read: ({ each }) => each.deadRows, peers, isCost: true, goal: '≤ 1' },
  { load: 'sustained, 2 processes', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
  { load: 'sustained, a snapshot forgotten elsewhere', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
  { load: 'drained', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 2' },
  { load: 'drained, 2 processes', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
  { load: 'drained, payloads of 10 kB', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
  { load: 'drained, payloads of 10 kB, random', figure: 'jobs/s', read: perSecond, peers, goal: '≥ 1' },
]

const endGoals: Comparison<End>[] = [
  { figure: 'enqueue to start, p50 ms', read: ({ p50Ms }) => p50Ms, peers: postgresPeers, isCost: true, goal: '≤ 1' },
  { figure: 'enqueue to start, p99 ms', read: ({ p99Ms }) => p99Ms, peers: postgresPeers, isCost: true, goal: '≤ 1' },
  { figure: 'enqueue one by one/s', read: ({ onePerSecond }) => onePerSecond, peers: postgresPeers, goal: '≥ 1' },
  { figure: 'enqueue, 32 at once/s', read: ({ perSecond }) => perSecond, peers, goal: '≥ 1' },
]

export function show(report: Awaited<ReturnType<typeof run>>) {
  const { options, described, through, ends, beside, claim } = report
  const endRows = Object.entries(ends).map(([name, rounds]) => [
    name,
    middle(rounds, ({ onePerSecond }) => onePerSecond),
    middle(rounds, ({ perSecond }) => perSecond),
    middle(rounds, ({ p50Ms }) => p50Ms),
    middle(rounds, ({ p99Ms }) => p99Ms),
  ])
  return [
    `${described}\nDrained: ${options.jobs} jobs (or 20 s), half of that behind a hot lane of 100,000, a quarter of it with 10 ms or 10 kB, ${options.delayed} delayed; sustained: ${options.seconds} s.`,
    ...Object.entries(through).map(([load, outcomes]) => showThrough(load, outcomes)),
    table(
      ['Nothing else to do', 'enqueue one by one/s', '32 at once/s', 'enqueue to start, p50 ms', 'p99 ms'],
      endRows,
    ),
    comparisonTable([
      ...throughGoals.map(({ load, figure, ...goal }) =>
        comparisonRow(through[load]!, { ...goal, figure: `${load}: ${figure}` }),
      ),
      ...endGoals.map((goal) => comparisonRow(ends, goal)),
    ]),
    table(
      ['Jobs', 'figure', 'goal'],
      [
        ['jobs/s of one worker, in turns with plain SQL', beside.perSecond, ''],
        ['jobs/s of the same statements in plain SQL', beside.plainPerSecond, ''],
        ['of what plain SQL reaches', beside.ratio, '≥ 0.5'],
        ...showBacklog(claim),
      ],
    ),
  ].join('\n\n')
}
