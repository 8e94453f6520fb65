// Jobs beside the queues that people use, and beside the same statements in plain SQL. Contestants take turns, round after round, each
// time on a fresh server with the same settings.
import { backlog, showBacklog } from './jobs/backlog.ts'
import { contestants, present, settingsOf } from './jobs/contestants.ts'
import { latency, singles } from './jobs/ends.ts'
import { besidePlain } from './jobs/plain.ts'
import { drain, sustain, type Through } from './jobs/through.ts'
import { median, type Options } from './measure.ts'
import { installPeers } from './peers/install.ts'
import { table } from './table.ts'

interface Load {
  run(name: string, options: { seconds: number; jobs: number; delayed: number }): Promise<Through>
  atDefaults?: boolean
  once?: boolean
  takesBulk?: boolean
  hasLanes?: boolean
}

/** The ends of a job, of one round. */
type End = Awaited<ReturnType<typeof singles>> & Awaited<ReturnType<typeof latency>>

/** What is asked of each; those at their defaults only meet the first. */
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
  const through: Record<string, Record<string, Through[]>> = {}
  for (const [load, { run, atDefaults, once, takesBulk, hasLanes }] of Object.entries(loads)) {
    const meets = (name: string) => {
      const { how, hasNoBulk, hasNoLanes } = contestants[name]!
      return (
        (atDefaults || how !== 'defaults' || name === 'holdfast') &&
        !(takesBulk && hasNoBulk) &&
        !(hasLanes && hasNoLanes)
      )
    }
    const here = names.filter(meets)
    const outcomes: Record<string, Through[]> = Object.fromEntries(here.map((name) => [name, []]))
    through[load] = outcomes
    for (let round = 0; round < (once ? 1 : rounds); round++) {
      for (const name of here) {
        progress(`jobs: ${load}, round ${round + 1}: ${name}`)
        outcomes[name]!.push(await run(name, options))
      }
    }
  }
  const ends: Record<string, End[]> = Object.fromEntries(names.map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (const name of names) {
      progress(`jobs: single enqueues and latency, round ${round + 1}: ${name}`)
      const isSlow = name.endsWith('defaults')
      ends[name]!.push({ ...(await singles(name, 1_500)), ...(await latency(name, isSlow ? 10 : 100)) })
    }
  }
  progress('jobs: beside plain SQL')
  const beside = await besidePlain({ rounds, seconds: Math.max(2, roundMs / 1_000) })
  progress('jobs: a claim before two million jobs')
  const claim = await backlog()
  const settings = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await settingsOf(name)])))
  return { options, versions, settings, absent, through, ends, beside, claim }
}

/** The best of the peers, and how many times that ours is. */
function compared(load: Record<string, Through[]>, ours: string, wanted: string, peers: string[]) {
  const rate = (name: string) => median(load[name]!.map(({ perSecond }) => perSecond))
  const others = peers.filter((name) => load[name])
  const best = others.reduce((one, other) => (rate(other) > rate(one) ? other : one))
  return [`${ours} : ${best}`, Number((rate(ours) / rate(best)).toPrecision(3)), wanted]
}

export function show(report: Awaited<ReturnType<typeof run>>) {
  const { options, versions, settings, absent, through, ends, beside, claim } = report
  const tables = Object.entries(through).map(([load, outcomes]) => {
    const isStream = Object.values(outcomes)[0]?.[0]?.last !== undefined
    const rows = Object.entries(outcomes).map(([name, rounds]) => {
      const of = (read: (one: Through) => number | undefined) => {
        const values = rounds.flatMap((one) => read(one) ?? []).filter(Number.isFinite)
        return values.length > 0 ? Number(median(values).toPrecision(3)) : undefined
      }
      return [
        name,
        of(({ perSecond }) => perSecond),
        Number(
          (Math.min(...rounds.map((one) => one.perSecond)) / Math.max(...rounds.map((one) => one.perSecond))).toFixed(
            2,
          ),
        ),
        isStream ? of(({ first, last }) => last! / first!) : of(({ bulkPerSecond }) => bulkPerSecond),
        of((one) => one.each.serverUs),
        of((one) => one.each.clientUs),
        of((one) => one.each.walBytes),
        of((one) => one.each.sizeBytes),
        of((one) => one.each.deadRows),
        of((one) => one.each.statements),
      ]
    })
    const middle = isStream ? 'last/first quarter' : 'bulk enqueue/s'
    return table(
      [
        load,
        'jobs/s',
        'least/most',
        middle,
        'server µs',
        'clients µs',
        'WAL bytes',
        'bytes grown',
        'dead rows',
        'statements',
      ],
      rows,
    )
  })
  const best = ['graphile-worker', 'pg-boss', 'DBOS', 'BullMQ on PostgreSQL', 'BullMQ on Redis']
  const defaults = best.map((name) => `${name}, defaults`)
  const goals: [load: string, ours: string, wanted: string, peers: string[]][] = [
    ['sustained', 'holdfast', '≥ 3', best],
    ['drained', 'holdfast', '≥ 2', best],
    ['sustained', 'holdfast', '≥ 10', defaults],
    ['sustained, a snapshot forgotten elsewhere', 'holdfast', '', best],
  ]
  const endRows = Object.entries(ends).map(([name, rounds]) => {
    const of = (what: keyof End) => median(rounds.map((one) => one[what]))
    return [
      name,
      Math.round(of('onePerSecond')),
      Math.round(of('perSecond')),
      Number(of('p50Ms').toFixed(2)),
      Number(of('p99Ms').toFixed(2)),
    ]
  })
  const why = Object.entries(absent).map(([name, reason]) => `${name} was not measured: ${reason}`)
  const told = Object.entries(settings).map(([name, one]) => `  ${name}: ${JSON.stringify(one)}`)
  return [
    [
      `Peers: ${Object.entries(versions)
        .map((pair) => pair.join(' '))
        .join(', ')}. What they are told:`,
      ...told,
      `Drained: ${options.jobs} jobs (or 20 s), half of that behind a hot lane of 100,000, a quarter of it with 10 ms or 10 kB, ${options.delayed} delayed; sustained: ${options.seconds} s.`,
      ...why,
    ].join('\n'),
    ...tables,
    table(
      ['compared with the best peer', 'ratio', 'goal'],
      goals.map(([load, ours, wanted, peers]) => {
        const [what, ratio, goal] = compared(through[load]!, ours, wanted, peers)
        return [`${load}: ${what}`, ratio, goal]
      }),
    ),
    table(
      ['Nothing else to do', 'enqueue one by one/s', '32 at once/s', 'enqueue to start, p50 ms', 'p99 ms'],
      endRows,
    ),
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
