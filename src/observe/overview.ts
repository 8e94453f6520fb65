import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import type { InstanceIdentity } from './fleet.js'
import { type JobsObserver, maxHistoryPages, type ObservedQueue, type QueueName } from './jobs.js'
import {
  maxListed,
  type NamesCounts,
  type NamesDocument,
  type NamesFilter,
  type NamesOverview,
  type OverviewLease,
  type OverviewLock,
  readNames,
} from './names.js'
import { dateOf, msOf, readDocument, readRow } from './rows.js'
import type { ScheduleName } from './schedule-rows.js'
import { parseGivenRule, type RawScheduleRow, type SchedulesObserver } from './schedules.js'

/** Maximum number of ready jobs, and of waiting jobs, to count per queue. */
const maxReady = 1_000

const recentTrouble = { withinMs: 3_600_000, perSubject: 10, limit: 50 }

/**
 * Overview of instances, names, schedules, queues and recent failures. Lists contain at most 200 rows. The counts
 * include rows that are not listed.
 */
export interface Overview {
  /** Time of the overview, according to the database clock. */
  readonly at: Date
  /** Version of the server. */
  readonly server: string
  /** Counts, including rows that are not listed. */
  readonly counts: OverviewCounts
  /** Instances. Dead instances come first. Within each group, the oldest instance comes first. */
  readonly instances: readonly OverviewInstance[]
  /**
   * One row for each name. Names with waits come first, starting with the longest wait and ending with elections. The
   * other names follow, starting with the longest hold.
   */
  readonly locks: readonly OverviewLock[]
  /** Leases. Leases that calls are waiting for come first. Within each group, the oldest lease comes first. */
  readonly leases: readonly OverviewLease[]
  /** Schedules in the order of their next ticks. Paused schedules come last. */
  readonly schedules: readonly OverviewSchedule[]
  /** Queues, by name. */
  readonly queues: readonly OverviewQueue[]
  /**
   * Period in milliseconds over which finished jobs are counted. The period is one minute, or less if more jobs
   * finished within that minute than the overview reads.
   */
  readonly overMs: number
  /**
   * Ongoing problems, and failures from the last hour, latest first. Contains at most 50 failures, and at most 10 per
   * queue or schedule.
   */
  readonly trouble: readonly Trouble[]
}

/** Counts, including rows that are not listed. */
export interface OverviewCounts extends NamesCounts {
  /** Number of known instances. */
  readonly instances: number
  /** Number of dead instances. */
  readonly gone: number
  /** Number of schedules. */
  readonly schedules: number
  /** Number of queues that are in use. */
  readonly queues: number
}

/** An instance: a process that opened Holdfast. */
export interface OverviewInstance extends InstanceIdentity {
  /** Whether the instance has a session in PostgreSQL, or a row that has not expired. */
  readonly alive: boolean
  /** Drain state of the instance. `open` if no drain was requested. */
  readonly state: 'open' | 'drain-requested' | 'draining' | 'drained'
  /** Number of locks that the instance holds. */
  readonly held: number
  /** Number of the instance's calls that are waiting for a lock. */
  readonly waiting: number
  /** Number of leases that the instance holds. */
  readonly leased: number
  /** Number of the instance's job workers. */
  readonly workers: number
  /** Number of times that the instance lost its presence and reconnected. */
  readonly reconnects: number
  /** Milliseconds since the instance opened. */
  readonly openMs: number
}

/** A schedule. */
export interface OverviewSchedule extends ScheduleName {
  /** Whether an operator paused the schedule. */
  readonly paused: boolean
  /** Number of live instances whose code defines the schedule. */
  readonly members: number
  /** Whether the schedule is stored in the database. */
  readonly stored: boolean
  /** Next tick, which may be overdue. Null if the rule has no further ticks. */
  readonly nextAt: Date | null
  /** Milliseconds until the next tick. Negative if the tick is overdue. */
  readonly nextInMs: number | null
  /** Number of current runs. */
  readonly running: number
  /** Finished run with the latest tick. */
  readonly last: LastRun | null
}

/** A finished schedule run. */
export interface LastRun {
  /** State in which the run ended. */
  readonly state: 'done' | 'failed' | 'cancelled' | 'broken'
  /** Tick that the run belongs to. */
  readonly tick: Date
  /** Milliseconds since the run ended. */
  readonly agoMs: number
  /** Duration of the run in milliseconds. Null if the run never started. */
  readonly tookMs: number | null
  /** Instance that ran the tick. */
  readonly instance: string | null
  /** Name of the instance. */
  readonly instanceName: string | null
}

/** A queue and its recently finished jobs. */
export interface OverviewQueue extends QueueName {
  /** Number of ready jobs, exact up to 1,000. `readyIs` shows what larger numbers mean. */
  readonly ready: number
  /**
   * `counted`: `ready` is exact. `estimated`: `ready` is estimated from a sample of job IDs. `at least`: `ready` is
   * 1,001, because no estimate exists.
   */
  readonly readyIs: 'counted' | 'estimated' | 'at least'
  /** Number of running jobs. */
  readonly running: number
  /** Number of waiting jobs, exact up to 1,000. The number is 1,001 if more jobs are waiting. */
  readonly waiting: number
  /** Milliseconds since the ready job that runs next was enqueued. Null if no job is ready. */
  readonly oldestMs: number | null
  /** Number of workers that serve the queue. */
  readonly workers: number
  /** Milliseconds since the queue was paused. Null if the queue is not paused. */
  readonly pausedMs: number | null
  /**
   * Number of done jobs per second, averaged over `overMs`.
   *
   * @fraction
   */
  readonly donePerSecond: number
  /** Number of jobs that were buried during `overMs`. */
  readonly buried: number
  /**
   * Time from enqueueing to the claim, for jobs that ended during `overMs` with their first attempt. Includes any
   * requested delay. Null if there were no such jobs.
   */
  readonly waited: Latency | null
  /**
   * Run time from the claim to the end, for jobs that ended as `done` during `overMs`. Null if there were no such jobs.
   */
  readonly took: Latency | null
}

/** Percentiles of a duration. */
export interface Latency {
  /** Median, in milliseconds. */
  readonly p50Ms: number
  /** 99th percentile, in milliseconds. */
  readonly p99Ms: number
}

/** A failure or an ongoing problem. */
export interface Trouble {
  /**
   * `buried`: a job failed permanently. `failed`: a schedule run threw an error. `broken`: a schedule run ended because
   * its instance died. `gap`: ticks have no run. `lease`: a lease expired without a renewal, and no call has acquired
   * it since. `reconnected`: an instance lost its session and reconnected. `gone`: an instance died without closing.
   */
  readonly kind: 'buried' | 'failed' | 'broken' | 'gap' | 'lease' | 'reconnected' | 'gone'
  /** Time of the failure. Null for an ongoing problem. */
  readonly at: Date | null
  /** Milliseconds since the failure. Null for an ongoing problem. */
  readonly agoMs: number | null
  /** Namespace of the subject. */
  readonly namespace: string | null
  /** Name of the queue, the schedule, the lock or the instance. */
  readonly subject: string
  /** ID of the job. */
  readonly job: number | null
  /** Kind of the job. Null for other problems. */
  readonly jobKind: string | null
  /** Error of the job or the run. Null if no error was recorded. */
  readonly error: TroubleError | null
  /** Reason, if it is known. For a job or a run: the kind of the job, and the message of the error. */
  readonly detail: string
  /** The instance. */
  readonly instance: string | null
  /** Name of the instance. */
  readonly instanceName: string | null
}

/** Error of a job or of a schedule run. */
export interface TroubleError {
  /** Name of the error. */
  readonly name: string | null
  /** Message of the error. */
  readonly message: string | null
}

export interface OverviewFilter {
  readonly namespace?: string | undefined
  /**
   * Limits of the list of failures: period, maximum number per queue or schedule, and maximum number in total.
   * Defaults: one hour, 10 and 50.
   */
  readonly trouble?: { readonly withinMs: number; readonly perSubject: number; readonly limit: number } | undefined
}

/** Reads the whole overview, or only its names. */
export class OverviewReader {
  readonly #reader: Reader
  readonly #jobs: JobsObserver
  readonly #schedules: SchedulesObserver
  readonly #sql: Record<'fleet' | 'recent', Statement>

  constructor(reader: Reader, schema: string, jobs: JobsObserver, schedules: SchedulesObserver) {
    this.#reader = reader
    this.#jobs = jobs
    this.#schedules = schedules
    this.#sql = loadStatements(new URL('./overview.sql', import.meta.url), schema)
  }

  async read({ namespace, trouble = recentTrouble }: OverviewFilter): Promise<Overview> {
    const fleet = await this.#readFleet({ namespace })
    const schedules = await this.#schedules.readRows({ namespace, limit: maxListed, byNextTick: true })
    const queues = await this.#jobs.queues({ namespace, limit: maxListed, countTo: maxReady })
    const { withinMs, perSubject, limit } = trouble
    const values = [maxHistoryPages, namespace ?? null, maxListed, withinMs, perSubject, limit]
    const recent = (await readDocument<RecentDocument>(this.#reader, this.#sql.recent, values))!
    const instances = (fleet.instanceRows ?? []).map((row) => readRow<OverviewInstance>(row))
    const { at, counts, locks, leases } = readNames(fleet)
    const ended = new Map((recent.ended ?? []).map((row) => [row.key, row]))
    return {
      at,
      server: fleet.server,
      counts: {
        instances: fleet.instances,
        gone: fleet.gone,
        ...counts,
        schedules: schedules.count,
        queues: queues.count,
      },
      instances,
      locks,
      leases,
      schedules: schedules.rows.map((row) => readSchedule(row, schedules.nowMs)),
      queues: queues.rows.map((row) => readQueue(row, at, ended.get(row.key), recent.overMs)),
      overMs: Math.round(recent.overMs),
      trouble: [...instances.filter(({ alive }) => !alive).map(goneOf), ...(recent.trouble ?? []).map(readTrouble)],
    }
  }

  async names(filter: NamesFilter): Promise<NamesOverview> {
    return readNames(await this.#readFleet(filter))
  }

  async #readFleet({ namespace, search, limit = maxListed, offset = 0 }: NamesFilter): Promise<FleetDocument> {
    const values = [namespace ?? null, limit, search ?? null, offset]
    return (await readDocument<FleetDocument>(this.#reader, this.#sql.fleet, values))!
  }
}

interface FleetDocument extends NamesDocument, Omit<OverviewCounts, 'schedules' | 'queues'> {
  server: string
  instanceRows: OverviewInstance[] | null
}

interface EndedJobs {
  key: string
  done: number
  buried: number
  waited: [number, number] | null
  took: [number, number] | null
}

interface RecentDocument {
  overMs: number
  ended: EndedJobs[] | null
  trouble:
    | (Omit<Trouble, 'at' | 'job' | 'detail'> & { atMs: number; id: string | null; detail: string | null })[]
    | null
}

function readSchedule(row: RawScheduleRow, nowMs: number): OverviewSchedule {
  const { key, namespace, name, rule, overridden, stored, pausedAt, members, nextAt, running, last } = row
  return {
    ...{ key, namespace, name, rule: parseGivenRule(rule), overridden, stored, paused: pausedAt !== null, members },
    nextAt: dateOf(nextAt),
    nextInMs: nextAt === null ? null : Math.round(nextAt - nowMs),
    running,
    last: last && {
      state: last.state,
      tick: new Date(last.tick),
      agoMs: msOf(nowMs - last.endedMs)!,
      tookMs: msOf(last.tookMs),
      instance: last.instance,
      instanceName: last.instanceName,
    },
  }
}

function readQueue(row: ObservedQueue, at: Date, ended: EndedJobs | undefined, overMs: number): OverviewQueue {
  const { key, name, namespace, ready, estimated, running, waiting, oldestAt, workers, pausedForMs } = row
  const isCounted = ready <= maxReady
  // Ignores an estimate that is smaller than the count, because it comes from outdated statistics.
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
    donePerSecond: ended ? Math.round((ended.done * 100_000) / Math.max(1, overMs)) / 100 : 0,
    buried: ended?.buried ?? 0,
    waited: latencyOf(ended?.waited),
    took: latencyOf(ended?.took),
  }
}

function readTrouble({ atMs, agoMs, id, ...same }: NonNullable<RecentDocument['trouble']>[number]): Trouble {
  const detail = same.detail ?? troubleDetail(same.jobKind, same.error?.message)
  return { ...same, at: new Date(atMs), agoMs: msOf(agoMs), job: id === null ? null : Number(id), detail }
}

/** Describes the failure of a job of this kind, or of a schedule run if `jobKind` is null. */
export function troubleDetail(jobKind: string | null, message: string | null | undefined): string {
  return `${jobKind === null ? '' : `${jobKind}: `}${message ?? 'no reason was given'}`
}

function goneOf({ id, namespace, name }: OverviewInstance): Trouble {
  return {
    kind: 'gone',
    at: null,
    agoMs: null,
    namespace,
    subject: name,
    job: null,
    jobKind: null,
    error: null,
    detail: 'the heartbeat stopped without a clean shutdown',
    instance: id,
    instanceName: name,
  }
}

function latencyOf(percentiles: [number, number] | null | undefined): Latency | null {
  return percentiles ? { p50Ms: msOf(percentiles[0])!, p99Ms: msOf(percentiles[1])! } : null
}
