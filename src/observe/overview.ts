import type { GivenRule } from '../base/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { msOf } from './dates.js'
import { type FoundNames, type LeaseGlance, type LockGlance, mostListed, type NamesCounts, readNames } from './names.js'
import { givenOf } from './schedules.js'
import { type BusyQueue, WorkObserver } from './work.js'

/** Up to so many ready or waiting jobs of a queue are counted in an overview. */
const mostReady = 1_000
/** So many of the last pages of the history are read to tell what ended lately: 512 kB, some thousands of ends. */
const mostPages = 64

/** Everything at a glance. Lists end after 200 rows; the counts beside them go on. */
export interface Overview {
  /** By the database's clock. */
  readonly at: Date
  /** The version of the server. */
  readonly server: string
  readonly counts: OverviewCounts
  /** Those that are gone first, then the oldest. */
  readonly instances: readonly InstanceGlance[]
  /** One row for each name: what has been waited for longest first, then what has been held longest. */
  readonly locks: readonly LockGlance[]
  /** Those that somebody waits for first, then the oldest. */
  readonly leases: readonly LeaseGlance[]
  /** The next to tick first, the paused ones last. */
  readonly schedules: readonly ScheduleGlance[]
  /** By name. */
  readonly queues: readonly QueueGlance[]
  /** Over how long a time the ends of jobs are counted: a minute, or less where more ended than is read. */
  readonly overMs: number
  /** What went wrong in the last hour, as far as it is written down, the latest first: at most 50, of each queue or schedule 10. */
  readonly trouble: readonly Trouble[]
}

export interface OverviewCounts extends NamesCounts {
  readonly instances: number
  /** How many of them nobody vouches for. */
  readonly gone: number
  readonly schedules: number
  readonly queues: number
}

export interface InstanceGlance {
  readonly id: string
  readonly namespace: string
  readonly host: string
  readonly osPid: number
  readonly version: string
  readonly alive: boolean
  /** How far it has come with draining; `open` when nobody wants that. */
  readonly state: 'open' | 'asked' | 'draining' | 'drained'
  /** Names that it holds as locks. */
  readonly held: number
  /** Its calls that wait for a lock. */
  readonly waiting: number
  readonly leased: number
  /** How many workers of jobs it has. */
  readonly workers: number
  /** 1 plus its reconnections. */
  readonly lives: number
  readonly openMs: number
}

export interface ScheduleGlance {
  readonly key: string
  readonly namespace: string
  readonly name: string
  /** Null where a newer version of Holdfast has written it. */
  readonly rule: GivenRule | null
  /** Whether the rule is an operator's. */
  readonly overridden: boolean
  readonly paused: boolean
  /** How many living instances have it in their code. */
  readonly members: number
  /** The next tick, which may be overdue; null when the rule has no more. */
  readonly nextAt: Date | null
  readonly nextInMs: number | null
  /** How many runs are under way. */
  readonly running: number
  /** The latest tick whose run has ended. */
  readonly last: LastRun | null
}

export interface LastRun {
  readonly state: 'done' | 'failed' | 'cancelled' | 'broken'
  readonly tick: Date
  readonly agoMs: number
  /** Null where it never began. */
  readonly tookMs: number | null
  readonly instance: string | null
}

export interface QueueGlance {
  readonly key: string
  /** Null, like the namespace, where nobody has written it down. */
  readonly name: string | null
  readonly namespace: string | null
  /** Exact up to 1,000. Beyond it what the planner's statistics say, or 1,001 where they say nothing: at least so many. */
  readonly ready: number
  readonly readyIs: 'counted' | 'estimated' | 'at least'
  readonly running: number
  /** Exact up to 1,000; 1,001 where there are more. */
  readonly waiting: number
  /** How long ago the first in order was enqueued, of those that are ready. Null when none is. */
  readonly oldestMs: number | null
  readonly workers: number
  /** For how long it has been paused. */
  readonly pausedMs: number | null
  /** How many of its jobs were done in each second of `overMs`. */
  readonly donePerSecond: number
  /** How many were buried in `overMs`. */
  readonly buried: number
  /**
   * Median and 99th percentile from being enqueued to being claimed, of the jobs that ended in `overMs` at the first attempt. A
   * delay that was asked for counts.
   */
  readonly waited: Latency | null
  /** The same from being claimed to being done. */
  readonly took: Latency | null
}

export interface Latency {
  readonly p50Ms: number
  readonly p99Ms: number
}

/** What has gone wrong. */
export interface Trouble {
  /**
   * `buried`: a job failed for good. `failed`, `broken`: a run of a schedule threw, or died with its instance. `gap`: ticks have no run.
   * `lease`: a lease was not renewed, and nobody has taken it since. `life`: an instance lost its session and came back. `gone`: nobody vouches for an
   * instance that has not closed.
   */
  readonly kind: 'buried' | 'failed' | 'broken' | 'gap' | 'lease' | 'life' | 'gone'
  /** Null for what lasts. */
  readonly at: Date | null
  readonly agoMs: number | null
  readonly namespace: string | null
  /** The queue, schedule, name or process. */
  readonly subject: string
  /** The id of the job. */
  readonly job: number | null
  readonly detail: string
  readonly instance: string | null
}

/** Reads the overview: a few statements, each of which answers with one document. */
export class Glance {
  readonly #reader: Reader
  readonly #work: WorkObserver
  readonly #sql: Record<'fleet' | 'schedules' | 'lately', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#work = new WorkObserver(reader, schema)
    this.#sql = loadStatements(new URL('./overview.sql', import.meta.url), schema)
  }

  async read(namespace: string | null): Promise<Overview> {
    const fleet = await this.#ask<Fleet>('fleet', [namespace, mostListed, null])
    const planned = await this.#ask<Planned>('schedules', [namespace, mostListed])
    const queues = await this.#work.queues({
      namespace: namespace ?? undefined,
      limit: mostListed,
      countTo: mostReady,
    })
    const lately = await this.#ask<Lately>('lately', [namespace, mostListed, mostPages])
    const instances = (fleet.instanceRows ?? []).map((row) => ({ ...row, openMs: msOf(row.openMs)! }))
    const { instances: all, gone } = fleet
    const { at, counts, locks, leases } = readNames(fleet)
    const ended = new Map((lately.ended ?? []).map((one) => [one.key, one]))
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
      queues: queues.rows.map((row) => readQueue(row, at, ended.get(row.key), lately.overMs)),
      overMs: Math.round(lately.overMs),
      trouble: [...instances.filter(({ alive }) => !alive).map(goneOf), ...(lately.trouble ?? []).map(readTrouble)],
    }
  }

  async #ask<Answer>(name: 'fleet' | 'schedules' | 'lately', values: readonly unknown[]): Promise<Answer> {
    const [row] = await this.#reader.read<{ answer: Answer }>(this.#sql[name].text, values)
    return row!.answer
  }
}

interface Fleet extends FoundNames, Omit<OverviewCounts, 'schedules' | 'queues'> {
  server: string
  instanceRows: InstanceGlance[] | null
}

interface Planned {
  schedules: number
  scheduleRows: ScheduleRow[] | null
}

interface ScheduleRow extends Omit<ScheduleGlance, 'rule' | 'nextAt' | 'last'> {
  rule: string
  nextMs: number | null
  last: (Omit<LastRun, 'tick'> & { atMs: number }) | null
}

interface Ended {
  key: string
  done: number
  buried: number
  waited: [number, number] | null
  took: [number, number] | null
}

interface Lately {
  overMs: number
  ended: Ended[] | null
  trouble: (Omit<Trouble, 'at' | 'job'> & { atMs: number; id: string | null })[] | null
}

function readSchedule({ rule, nextMs, nextInMs, last, ...same }: ScheduleRow): ScheduleGlance {
  return {
    ...same,
    rule: givenOf(rule),
    nextAt: nextMs === null ? null : new Date(nextMs),
    nextInMs: nextInMs === null ? null : Math.round(nextInMs),
    last: last === null ? null : readLast(last),
  }
}

function readLast({ atMs, agoMs, tookMs, ...same }: NonNullable<ScheduleRow['last']>): LastRun {
  return { ...same, tick: new Date(atMs), agoMs: msOf(agoMs)!, tookMs: msOf(tookMs) }
}

function readQueue(row: BusyQueue, at: Date, ended: Ended | undefined, overMs: number): QueueGlance {
  const { key, name, namespace, ready, estimated, running, waiting, oldestAt, workers, pausedForMs } = row
  const isCounted = ready <= mostReady
  // Statistics from before the queue grew must not speak against what was counted.
  const isEstimated = !isCounted && estimated !== null && estimated > mostReady
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

function readTrouble({ atMs, agoMs, id, ...same }: NonNullable<Lately['trouble']>[number]): Trouble {
  return { ...same, at: new Date(atMs), agoMs: msOf(agoMs), job: id === null ? null : Number(id) }
}

function goneOf({ id, namespace, host, osPid }: InstanceGlance): Trouble {
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
