import type { RuleOptions } from '../cron/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { msOf } from './dates.js'
import { JobsObserver, type ObservedQueue } from './jobs.js'
import {
  maxListed,
  type NamesAnswer,
  type NamesCounts,
  type OverviewLease,
  type OverviewLock,
  readNames,
} from './names.js'
import { parseGivenRule } from './schedules.js'

/** Up to so many ready or waiting jobs of a queue are counted in an overview. */
const maxReady = 1_000
/** So many of the last pages of the history are read to tell what ended lately: 512 kB, some thousands of ends. */
const maxPages = 64

/** Overview of instances, names, schedules, queues and recent failures. Lists end after 200 rows. The counts include all. */
export interface Overview {
  /** Time of the overview, by the database clock. */
  readonly at: Date
  /** Version of the server. */
  readonly server: string
  /** Counts, including what is not listed. */
  readonly counts: OverviewCounts
  /** Instances. Dead instances come first, then the oldest. */
  readonly instances: readonly OverviewInstance[]
  /**
   * One row for each name. The longest wait comes first, candidates of elections last among the waits, then the longest hold.
   */
  readonly locks: readonly OverviewLock[]
  /** Leases. Those that calls wait for come first, then the oldest. */
  readonly leases: readonly OverviewLease[]
  /** Schedules. The next tick comes first, paused schedules last. */
  readonly schedules: readonly OverviewSchedule[]
  /** Queues, by name. */
  readonly queues: readonly OverviewQueue[]
  /** Period in milliseconds over which ended jobs are counted: a minute, or less if more jobs ended than are read. */
  readonly overMs: number
  /**
   * Lasting problems, and failures of the last hour, the latest first. At most 50 failures, and at most 10 of each queue or
   * schedule.
   */
  readonly trouble: readonly Trouble[]
}

/** Counts, including what is not listed. */
export interface OverviewCounts extends NamesCounts {
  /** Number of known instances. */
  readonly instances: number
  /** Number of dead instances. */
  readonly gone: number
  /** Number of schedules. */
  readonly schedules: number
  /** Number of queues that were used. */
  readonly queues: number
}

/** A process that opened Holdfast. */
export interface OverviewInstance {
  /** ID of the instance. */
  readonly id: string
  /** Namespace of the instance. */
  readonly namespace: string
  /** Host of the instance. */
  readonly host: string
  /** Operating system process of the instance. */
  readonly osPid: number
  /** Version of Holdfast. */
  readonly version: string
  /** Whether PostgreSQL has a session of the instance, or its row has not expired. */
  readonly alive: boolean
  /** Progress of a drain. `open` if no drain was requested. */
  readonly state: 'open' | 'drain-requested' | 'draining' | 'drained'
  /** Number of names that the instance holds as locks. */
  readonly held: number
  /** Number of calls of the instance that wait for a lock. */
  readonly waiting: number
  /** Number of names that the instance holds by lease. */
  readonly leased: number
  /** Number of job workers. */
  readonly workers: number
  /** Number of times that the instance lost its presence and reconnected. */
  readonly reconnects: number
  /** Milliseconds since the instance opened. */
  readonly openMs: number
}

/** A schedule. */
export interface OverviewSchedule {
  /**
   * 64-bit key of the schedule, in decimal.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Namespace of the schedule. */
  readonly namespace: string
  /** Name of the schedule. */
  readonly name: string
  /** Rule that is in force. Null if a newer version of Holdfast wrote the rule. */
  readonly rule: RuleOptions | null
  /** Whether an operator set the rule. */
  readonly overridden: boolean
  /** Whether an operator paused the schedule. */
  readonly paused: boolean
  /** Number of live instances that have the schedule in their code. */
  readonly members: number
  /** Next tick, which may be overdue. Null if the rule has no more ticks. */
  readonly nextAt: Date | null
  /** Milliseconds until the next tick. Negative if it is overdue. */
  readonly nextInMs: number | null
  /** Number of current runs. */
  readonly running: number
  /** Latest tick whose run has ended. */
  readonly last: LastRun | null
}

/** An ended run of a schedule. */
export interface LastRun {
  /** How the run ended. */
  readonly state: 'done' | 'failed' | 'cancelled' | 'broken'
  /** Tick of the run. */
  readonly tick: Date
  /** Milliseconds since the run ended. */
  readonly agoMs: number
  /** Duration of the run in milliseconds. Null if the run never started. */
  readonly tookMs: number | null
  /** Instance that ran it. */
  readonly instance: string | null
}

/** A queue, and the jobs that ended recently. */
export interface OverviewQueue {
  /**
   * 64-bit key of the queue, in decimal.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Name of the queue. Null if the name is not registered. */
  readonly name: string | null
  /** Namespace of the queue. Null if the name is not registered. */
  readonly namespace: string | null
  /** Number of jobs that may run. Exact up to 1,000. `readyIs` says what larger numbers mean. */
  readonly ready: number
  /**
   * `counted`: `ready` is exact. `estimated`: it is an estimate of the query planner. `at least`: it is 1,001, because there is
   * no estimate.
   */
  readonly readyIs: 'counted' | 'estimated' | 'at least'
  /** Number of running jobs. */
  readonly running: number
  /** Number of jobs that may not run yet. Exact up to 1,000. 1,001 if there are more. */
  readonly waiting: number
  /** Milliseconds since the next ready job was enqueued. Null if no job is ready. */
  readonly oldestMs: number | null
  /** Number of workers that serve the queue. */
  readonly workers: number
  /** Milliseconds since the queue was paused. Null if the queue is not paused. */
  readonly pausedMs: number | null
  /**
   * Number of jobs that were done per second, over `overMs`.
   *
   * @fraction
   */
  readonly donePerSecond: number
  /** Number of jobs that were buried in `overMs`. */
  readonly buried: number
  /**
   * Time from enqueueing to the claim, for jobs that ended in `overMs` at the first attempt. Includes a requested delay. Null
   * if there were no such jobs.
   */
  readonly waited: Latency | null
  /** Time from the claim to the end, for jobs that were done in `overMs`. Null if there were no such jobs. */
  readonly took: Latency | null
}

/** Percentiles of a duration. */
export interface Latency {
  /** Median, in milliseconds. */
  readonly p50Ms: number
  /** 99th percentile, in milliseconds. */
  readonly p99Ms: number
}

/** A failure or a lasting problem. */
export interface Trouble {
  /**
   * `buried`: a job failed for good. `failed`, `broken`: a run of a schedule threw, or died with its instance. `gap`: ticks
   * have no run. `lease`: a lease was not renewed, and no call has acquired it since. `reconnected`: an instance lost its session and
   * reconnected. `gone`: an instance died without closing.
   */
  readonly kind: 'buried' | 'failed' | 'broken' | 'gap' | 'lease' | 'reconnected' | 'gone'
  /** Time of the failure. Null for a lasting problem. */
  readonly at: Date | null
  /** Milliseconds since the failure. Null for a lasting problem. */
  readonly agoMs: number | null
  /** Namespace of the subject. */
  readonly namespace: string | null
  /** Name of the queue, the schedule, the lock or the process. */
  readonly subject: string
  /** ID of the job. */
  readonly job: number | null
  /** Reason, if it is known. */
  readonly detail: string
  /** The instance. */
  readonly instance: string | null
}

/** Reads the overview: a few statements, each of which answers with one document. */
export class OverviewReader {
  readonly #reader: Reader
  readonly #jobs: JobsObserver
  readonly #sql: Record<'fleet' | 'schedules' | 'recent', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#jobs = new JobsObserver(reader, schema)
    this.#sql = loadStatements(new URL('./overview.sql', import.meta.url), schema)
  }

  async read(namespace: string | null): Promise<Overview> {
    const fleet = await this.#read<FleetAnswer>('fleet', [namespace, maxListed, null])
    const planned = await this.#read<SchedulesAnswer>('schedules', [namespace, maxListed])
    const queues = await this.#jobs.queues({
      namespace: namespace ?? undefined,
      limit: maxListed,
      countTo: maxReady,
    })
    const recent = await this.#read<RecentAnswer>('recent', [namespace, maxListed, maxPages])
    const instances = (fleet.instanceRows ?? []).map((row) => ({ ...row, openMs: msOf(row.openMs)! }))
    const { instances: all, gone } = fleet
    const { at, counts, locks, leases } = readNames(fleet)
    const ended = new Map((recent.ended ?? []).map((one) => [one.key, one]))
    return {
      at,
      server: fleet.server,
      counts: {
        instances: all,
        gone,
        ...counts,
        schedules: planned.schedules,
        queues: queues.count,
      },
      instances,
      locks,
      leases,
      schedules: (planned.scheduleRows ?? []).map(readSchedule),
      queues: queues.rows.map((row) => readQueue(row, at, ended.get(row.key), recent.overMs)),
      overMs: Math.round(recent.overMs),
      trouble: [...instances.filter(({ alive }) => !alive).map(goneOf), ...(recent.trouble ?? []).map(readTrouble)],
    }
  }

  async #read<Answer>(name: 'fleet' | 'schedules' | 'recent', values: readonly unknown[]): Promise<Answer> {
    const [row] = await this.#reader.read<{ answer: Answer }>(this.#sql[name].text, values)
    return row!.answer
  }
}

interface FleetAnswer extends NamesAnswer, Omit<OverviewCounts, 'schedules' | 'queues'> {
  server: string
  instanceRows: OverviewInstance[] | null
}

interface SchedulesAnswer {
  schedules: number
  scheduleRows: RawScheduleRow[] | null
}

interface RawScheduleRow extends Omit<OverviewSchedule, 'rule' | 'nextAt' | 'last'> {
  rule: string
  nextMs: number | null
  last: (Omit<LastRun, 'tick'> & { atMs: number }) | null
}

interface EndedJobs {
  key: string
  done: number
  buried: number
  waited: [number, number] | null
  took: [number, number] | null
}

interface RecentAnswer {
  overMs: number
  ended: EndedJobs[] | null
  trouble: (Omit<Trouble, 'at' | 'job'> & { atMs: number; id: string | null })[] | null
}

function readSchedule({ rule, nextMs, nextInMs, last, ...same }: RawScheduleRow): OverviewSchedule {
  return {
    ...same,
    rule: parseGivenRule(rule),
    nextAt: nextMs === null ? null : new Date(nextMs),
    nextInMs: nextInMs === null ? null : Math.round(nextInMs),
    last: last === null ? null : readLast(last),
  }
}

function readLast({ atMs, agoMs, tookMs, ...same }: NonNullable<RawScheduleRow['last']>): LastRun {
  return { ...same, tick: new Date(atMs), agoMs: msOf(agoMs)!, tookMs: msOf(tookMs) }
}

function readQueue(row: ObservedQueue, at: Date, ended: EndedJobs | undefined, overMs: number): OverviewQueue {
  const { key, name, namespace, ready, estimated, running, waiting, oldestAt, workers, pausedForMs } = row
  const isCounted = ready <= maxReady
  // Statistics from before the queue grew must not speak against what was counted.
  const isEstimated = !isCounted && estimated !== null && estimated > maxReady
  return {
    key,
    name,
    namespace,
    ready: isEstimated ? estimated : ready,
    readyIs: isCounted ? 'counted' : isEstimated ? 'estimated' : 'at least',
    running,
    waiting,
    oldestMs: oldestAt && msOf(at.getTime() - oldestAt.getTime()),
    workers,
    pausedMs: pausedForMs,
    donePerSecond: ended ? Number(((ended.done * 1_000) / Math.max(1, overMs)).toPrecision(3)) : 0,
    buried: ended?.buried ?? 0,
    waited: latencyOf(ended?.waited),
    took: latencyOf(ended?.took),
  }
}

function readTrouble({ atMs, agoMs, id, ...same }: NonNullable<RecentAnswer['trouble']>[number]): Trouble {
  return { ...same, at: new Date(atMs), agoMs: msOf(agoMs), job: id === null ? null : Number(id) }
}

function goneOf({ id, namespace, host, osPid }: OverviewInstance): Trouble {
  return {
    kind: 'gone',
    at: null,
    agoMs: null,
    namespace,
    subject: `${host} process ${osPid}`,
    job: null,
    detail: 'nobody vouches for it, and it has not closed',
    instance: id,
  }
}

function latencyOf(percentiles: [number, number] | null | undefined): Latency | null {
  return percentiles ? { p50Ms: msOf(percentiles[0])!, p99Ms: msOf(percentiles[1])! } : null
}
