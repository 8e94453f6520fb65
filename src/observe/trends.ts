import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { readDocument } from './rows.js'

/** Maximum number of points. For a longer period, each point covers several minutes. */
const maxPoints = 240
/** Maximum number of pages of the job history that are read from each table. */
const maxPages = 2_000
const maxListed = 50
const activityMinutes = 60

export interface TrendFilter {
  readonly namespace?: string | undefined
  readonly queue?: string | undefined
  readonly kind?: string | undefined
  /** Number of hours to read, at most 48. Default 3. */
  readonly hours?: number | undefined
}

/** Ended jobs and failed attempts over time, and in total by kind and queue. */
export interface Trends {
  /** Start of the first column. */
  readonly from: Date
  /** End of the period, which is the time of the snapshot. */
  readonly until: Date
  readonly columnMs: number
  readonly columns: number
  /** Whether the counts are estimates, because the history is too long to be read completely. */
  readonly isEstimated: boolean
  /**
   * The statement looked up one in `oneOf` done jobs. The times, and the shares of queues and kinds, are based on these
   * jobs. The value is 1 if all jobs were looked up.
   */
  readonly oneOf: number
  /** Columns in which a job of the chosen queue and kind ended or failed. Columns without such jobs are omitted. */
  readonly points: readonly TrendPoint[]
  /** At most 50 kinds in the chosen queue, starting with the kind that has the most failed jobs. */
  readonly kinds: readonly KindTotals[]
  /** At most 50 queues with the chosen kind, starting with the queue that has the most attempts. */
  readonly queues: readonly QueueTotals[]
}

export interface TrendCounts {
  /** Number of jobs that are done. */
  readonly done: number
  /**
   * Number of attempts that failed, whether the job was retried or not. If a worker dies, the attempts of all jobs that it had claimed
   * count as failed.
   */
  readonly failedAttempts: number
  /** Number of jobs that failed permanently. */
  readonly failed: number
  /**
   * Time from enqueueing to the claim, for jobs that were done with their first attempt. Includes any requested delay.
   * Null if there are no such jobs.
   */
  readonly waited: Percentiles | null
  /** Run time of the attempts that succeeded. Null if no job is done. */
  readonly took: Percentiles | null
}

export interface TrendPoint extends TrendCounts {
  /** Index of the column. */
  readonly column: number
}

export interface KindTotals extends TrendCounts {
  /** Namespace of the jobs. Null if the name of their queue is not known. */
  readonly namespace: string | null
  /** Kind of the jobs. */
  readonly kind: string
  /** Queues of the jobs. */
  readonly queues: readonly string[]
  /** Error of the latest failed attempt or job in the period. Null if none failed. */
  readonly lastError: LastError | null
}

export interface QueueTotals extends TrendCounts {
  /** Namespace of the queue. Null if its name is not known. */
  readonly namespace: string | null
  /** Name of the queue. */
  readonly queue: string
}

export interface LastError {
  /** ID of the job. */
  readonly job: number
  /** Time of the failure. */
  readonly at: Date
  /** Name of the error. */
  readonly name: string | null
  /** Message of the error. */
  readonly message: string | null
}

export interface Percentiles {
  /**
   * Median in milliseconds.
   *
   * @fraction
   */
  readonly p50Ms: number
  /**
   * 95th percentile in milliseconds.
   *
   * @fraction
   */
  readonly p95Ms: number
  /**
   * 99th percentile in milliseconds.
   *
   * @fraction
   */
  readonly p99Ms: number
}

/**
 * Numbers of instances, held names and waiting calls in each of the last 60 minutes. For names and calls, the last
 * minute is incomplete.
 */
export interface Activity {
  /** Start of the first minute. */
  readonly from: Date
  /** Number of open instances at the end of each minute. */
  readonly instances: readonly number[]
  /** Average number of held names. */
  readonly held: readonly number[]
  /** Average number of calls that were waiting for names. */
  readonly waiting: readonly number[]
}

interface ActivityDocument {
  fromMs: number
  minutes: [instances: number, held: number, waiting: number][]
}

type RawPercentiles = [p50: number, p95: number, p99: number] | null
type RawCounts<Totals extends TrendCounts> = Omit<Totals, 'waited' | 'took' | 'lastError'> & {
  waited: RawPercentiles
  took: RawPercentiles
}
type RawPoint = [
  column: number,
  done: number,
  failedAttempts: number,
  failed: number,
  waited: RawPercentiles,
  took: RawPercentiles,
]

interface TrendsDocument {
  fromMs: number
  nowMs: number
  isEstimated: boolean
  oneOf: number
  points: RawPoint[] | null
  kinds: (RawCounts<KindTotals> & { lastError: (Omit<LastError, 'at'> & { at: number }) | null })[] | null
  queues: RawCounts<QueueTotals>[] | null
}

const minuteMs = 60_000

/** Reads ended jobs and failed attempts over time. Part of the `Observer`. */
export class TrendReader {
  readonly #reader: Reader
  readonly #sql: Record<'trends' | 'activity', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./trends.sql', import.meta.url), schema)
  }

  async read({ namespace, queue, kind, hours = 3 }: TrendFilter): Promise<Trends> {
    const minutes = Math.ceil((hours * 60) / maxPoints)
    const values = [hours, minutes, namespace ?? null, queue ?? null, kind ?? null, maxListed, maxPages]
    const found = (await readDocument<TrendsDocument>(this.#reader, this.#sql.trends, values))!
    return {
      from: new Date(found.fromMs),
      until: new Date(found.nowMs),
      columnMs: minutes * minuteMs,
      columns: Math.ceil((hours * 60) / minutes),
      isEstimated: found.isEstimated,
      oneOf: found.oneOf,
      points: (found.points ?? []).map(([column, done, failedAttempts, failed, waited, took]) =>
        readCounts({ column, done, failedAttempts, failed, waited, took }),
      ),
      kinds: (found.kinds ?? []).map(({ lastError, ...kind }) => ({
        ...readCounts(kind),
        lastError: lastError && { ...lastError, at: new Date(lastError.at) },
      })),
      queues: (found.queues ?? []).map(readCounts),
    }
  }

  async activity(namespace: string | undefined): Promise<Activity> {
    const values = [namespace ?? null, activityMinutes]
    const { fromMs, minutes } = (await readDocument<ActivityDocument>(this.#reader, this.#sql.activity, values))!
    return {
      from: new Date(fromMs),
      instances: minutes.map(([instances]) => instances),
      held: minutes.map(([, held]) => held),
      waiting: minutes.map(([, , waiting]) => waiting),
    }
  }
}

function readCounts<Raw extends { waited: RawPercentiles; took: RawPercentiles }>({ waited, took, ...counts }: Raw) {
  return { ...counts, waited: readPercentiles(waited), took: readPercentiles(took) }
}

function readPercentiles(given: RawPercentiles): Percentiles | null {
  return given && { p50Ms: given[0], p95Ms: given[1], p99Ms: given[2] }
}
