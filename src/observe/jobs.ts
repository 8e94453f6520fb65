import { type JobState, jobStates } from '../base/index.js'
import { arrayLiteral, loadStatements, type Reader, type Statement } from '../postgres/index.js'
import type { JobSearch, JobWait } from '../search/index.js'
import { type RawRow, readRow } from './dates.js'

export { type JobState, jobStates } from '../base/index.js'

export interface QueueFilter {
  readonly namespace?: string | undefined
  /** The name of a queue. */
  readonly queue?: string | undefined
  /** Maximum number of queues, the first by name. Default: all. */
  readonly limit?: number | undefined
  /** Up to this number jobs are counted. Default `maxCounted`. */
  readonly countTo?: number | undefined
}

/** Up to this number the jobs of a queue are counted. */
export const maxCounted = 10_000

/** A queue and the number of its jobs by state. Each number is exact up to `maxCounted`, and one more if there are more. */
export interface ObservedQueue {
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
  /** Start of the pause. Null if the queue is not paused. */
  readonly pausedAt: Date | null
  /** Milliseconds since then, by the database clock. */
  readonly pausedForMs: number | null
  /** Number of workers that serve the queue. */
  readonly workers: number
  /** Number of running jobs. */
  readonly running: number
  /** Number of jobs that may run, counted up to 10,000. 10,001 if there are more. */
  readonly ready: number
  /** Number of jobs that run or may run, estimated by the planner of PostgreSQL. Null if its statistics do not contain the queue. */
  readonly estimated: number | null
  /** Time at which the next ready job was enqueued. Null if none is ready. */
  readonly oldestAt: Date | null
  /** Number of waiting jobs, counted up to 10,000. 10,001 if there are more. */
  readonly waiting: number
  /** Number of jobs that wait for their time, among the first 10,000 that are due. */
  readonly scheduled: number
  /** Number of jobs that wait for their next attempt, among the same. */
  readonly retrying: number
  /** Number of jobs that wait for a place in a lane, among the same. */
  readonly parked: number
  /** Number of jobs that wait for other jobs, among the same. */
  readonly blocked: number
  /** Number of buried jobs, counted up to 10,000. 10,001 if there are more. */
  readonly buried: number
  /** Number of cancelled jobs, counted up to 10,000. 10,001 if there are more. */
  readonly cancelled: number
  /** Number of discarded jobs, counted up to 10,000. 10,001 if there are more. */
  readonly discarded: number
}

/** What happened to the jobs of a queue lately, each in jobs a minute; `retried` counts those that have not ended since. */
export type QueueRates = Readonly<Record<RateKind, number>>

/** The rates of a queue at rest. */
export const noRates = { enqueued: 0, done: 0, retried: 0, buried: 0, cancelled: 0, discarded: 0 }
export type RateKind = keyof typeof noRates

/** A job, without its input and its result. */
export interface ObservedJob {
  /** ID of the job. */
  readonly id: number
  /** Name of the job definition. */
  readonly kind: string
  /** Name of the queue. Null if the name is not registered. */
  readonly queue: string | null
  /** Namespace of the queue. Null if the name of the queue is not registered. */
  readonly namespace: string | null
  /**
   * 64-bit key of the queue, in decimal.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly queueKey: string
  /** State of the job. */
  readonly state: JobState
  /** Whether only the pause of its queue keeps the job from running. */
  readonly paused: boolean
  /** What the waiting job waits for: its time, its next attempt, a place in its lane, or other jobs. */
  readonly waits: JobWait | null
  /** Lane of the job. */
  readonly lane: string | null
  /** Priority. Larger numbers run first. */
  readonly priority: number
  /** Number of failed attempts. */
  readonly failed: number
  /** Number of workers that died while they had the job. */
  readonly crashes: number
  /**
   * Last progress that the handler reported.
   *
   * @fraction
   */
  readonly progress: number | null
  /** Instance that runs the job, or ran it last. Null if it is no longer known. */
  readonly instance: string | null
  /** Host of that instance. Null if it is no longer known. */
  readonly host: string | null
  /** Operating system process of that instance. Null if it is no longer known. */
  readonly osPid: number | null
  /** Reason why the running job was asked to stop. */
  readonly cancelling: string | null
  /**
   * What keeps the job from running, unless it is only a matter of time: no worker serves its queue or its kind, or other jobs
   * have to end first.
   */
  readonly waitReason: string | null
  /** Error of the last attempt, or reason why the job ended. */
  readonly failure: string | null
  /** Name of that error. */
  readonly failureName: string | null
  /** Time at which the job was enqueued. */
  readonly enqueuedAt: Date
  /** Time from which the waiting job may run. */
  readonly runAt: Date | null
  /** Start of the running attempt. */
  readonly claimedAt: Date | null
  /** Time at which the job ended. */
  readonly endedAt: Date | null
  /** Milliseconds since the job ended, or was claimed, or else was enqueued, by the database clock. */
  readonly forMs: number
  /** Milliseconds until the waiting job may run. */
  readonly dueInMs: number | null
}

export interface JobSearchResult {
  readonly rows: ObservedJob[]
  /** Whether there are more than these. */
  readonly hasMore: boolean
  /** So many of each state were looked through, and that was not all; null when all were. */
  readonly searchedRows: number | null
}

/** An attempt that failed, or whose worker died. */
export interface ObservedAttempt {
  readonly attempt: number
  readonly name: string
  readonly message: string
  readonly code: string | undefined
  readonly stack: string | undefined
  readonly claimedAt: Date | null
  readonly at: Date
  readonly instance: string | null
}

export interface JobDetails
  extends Omit<ObservedJob, 'paused' | 'waitReason' | 'failure' | 'failureName' | 'forMs' | 'dueInMs'> {
  readonly pausedAt: Date | null
  readonly maxCrashes: number
  /** Of its last claim. */
  readonly fence: number | null
  readonly uniqueKey: string | null
  /** The first job of its workflow. */
  readonly workflow: number | null
  /** Undefined when it is larger than `maxBytes`. */
  readonly input: unknown
  readonly inputBytes: number
  readonly result: unknown
  readonly resultBytes: number | null
  readonly error: {
    readonly name: string
    readonly message: string
    readonly code?: string
    readonly stack?: string
  } | null
  readonly log: readonly string[]
  readonly attempts: readonly ObservedAttempt[]
  /** The jobs that it is tied to, and itself: those of its workflow, that it waits for, and that wait for it. */
  readonly linked: readonly LinkedJob[]
  /** How many others there are. */
  readonly others: number
}

export interface LinkedJob {
  readonly id: number
  readonly kind: string
  readonly state: JobState
  /** The jobs that have to end before it. */
  readonly after: readonly number[]
  /** What becomes of it when one of these fails. */
  readonly ifFailed: 'cancel' | 'run' | 'wait'
}

const everyJob: JobSearch = {
  ids: [],
  queues: [],
  kinds: [],
  lanes: [],
  states: jobStates,
  onlyFailed: [],
  waits: [],
  input: [],
}
/** So many of the last pages of the history are read to tell what ended lately: 512 kB, some thousands of ends. */
const maxPages = 64
const maxNewJobs = 5_000
/** Where no index answers, so many jobs are looked through in each state; inputs are longer to read. */
const maxSearched = 20_000
const maxInputsSearched = 5_000
/** So many bytes of an input or a result are read. */
const maxBytes = 65_536
const maxLinked = 60
const dates = ['enqueuedAt', 'runAt', 'claimedAt', 'endedAt'] as const

/** Queues and jobs, as whoever watches them wants to see them. Part of the `Observer`. */
export class JobsObserver {
  readonly #reader: Reader
  readonly #sql: Record<'queues' | 'rates' | 'search' | 'job', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./jobs.sql', import.meta.url), schema)
  }

  /** The queues by name, and how many of their jobs are in each state; `count` is the number of all that fit. */
  async queues(only: QueueFilter = {}): Promise<{ rows: ObservedQueue[]; count: number }> {
    const { namespace, queue, limit, countTo = maxCounted } = only
    const values = [namespace ?? null, limit ?? null, countTo + 1, queue ?? null]
    const { count, rows } = await this.#read<{ count: number; rows: RawRow<ObservedQueue>[] | null }>('queues', values)
    return { count, rows: (rows ?? []).map((row) => readRow<ObservedQueue>(row, 'pausedAt', 'oldestAt')) }
  }

  /** What went through the queues in the last minute, by key; nothing for a queue at rest. */
  async rates(): Promise<ReadonlyMap<string, QueueRates>> {
    const { overMs, rows } = await this.#read<RatesAnswer>('rates', [maxPages, maxNewJobs])
    const rates = new Map<string, QueueRates>()
    for (const { key, kind, jobs } of rows ?? []) {
      const perMinute = Math.round((jobs * 60_000) / Math.max(1_000, overMs))
      rates.set(key, { ...(rates.get(key) ?? noRates), [kind]: perMinute })
    }
    return rates
  }

  /**
   * Jobs, at most `limit`: first those that run, then the ready ones in their order, then those that wait, the next due one
   * first, then those that have ended, the newest first. Where no index answers it looks through the first twenty thousand of a
   * state (of those that are done: of all that have ended), five thousand where inputs are read, and says if these were not all.
   * An empty search finds every job.
   */
  async search(
    search: Partial<JobSearch>,
    { namespace, limit = 50 }: { readonly namespace?: string | undefined; readonly limit?: number | undefined } = {},
  ): Promise<JobSearchResult> {
    const { ids, queues, kinds, lanes, states, onlyFailed, waits, input } = { ...everyJob, ...search }
    const some = (list: readonly string[]) => (list.length > 0 ? list : null)
    const isFiltered = kinds.length + lanes.length + onlyFailed.length + waits.length + input.length > 0
    const bound = input.length > 0 ? maxInputsSearched : maxSearched
    const searchLimit = isFiltered ? bound : 0
    const searchesFurther = isFiltered || queues.length > 0 || namespace !== undefined
    const { rows, isCut } = await this.#read<{ rows: RawJobRow[] | null; isCut: boolean }>('search', [
      namespace ?? null,
      some(queues),
      some(kinds),
      some(lanes),
      ids.length > 0 ? arrayLiteral(ids) : null,
      states,
      onlyFailed,
      some(waits),
      JSON.stringify(input),
      limit,
      searchLimit,
      searchesFurther ? bound : limit + 1,
    ])
    const found = (rows ?? []).map(readJob)
    const hasMore = found.length > limit
    return { rows: found.slice(0, limit), hasMore, searchedRows: isCut && searchesFurther && !hasMore ? bound : null }
  }

  /** One job with all that is known of it; undefined when there is none, or it ended so long ago that it is forgotten. */
  async find(id: number): Promise<JobDetails | undefined> {
    // It may change its table in the very moment of the question.
    for (let tries = 0; tries < 2; tries++) {
      const { job, others, linked } = await this.#read<JobAnswer>('job', [id, maxBytes, maxLinked])
      if (job) return readDetails(job, linked ?? [], others)
    }
    return undefined
  }

  async #read<Answer>(name: 'queues' | 'rates' | 'search' | 'job', values: readonly unknown[]): Promise<Answer> {
    const [row] = await this.#reader.read<{ answer: Answer }>(this.#sql[name].text, values)
    return row!.answer
  }
}

interface RatesAnswer {
  overMs: number
  rows: { key: string; kind: RateKind; jobs: number }[] | null
}

type RawJobRow = RawRow<Omit<ObservedJob, 'waitReason'>> & { unserved: Unserved; needs: Needs }

type JobRow = Omit<JobDetails, 'log' | 'attempts' | 'linked' | 'others'>

interface JobAnswer {
  job:
    | (RawRow<JobRow> & {
        log: string[] | null
        failures: RawAttempt[] | null
      })
    | null
  others: number
  linked: LinkedJob[] | null
}

type RawAttempt = Omit<ObservedAttempt, 'at' | 'claimedAt'> & { at: string; claimedAt: string | null }

function readJob({ unserved, needs, ...row }: RawJobRow): ObservedJob {
  return { ...readRow<Omit<ObservedJob, 'waitReason'>>(row, ...dates), waitReason: waitReasonOf(unserved, needs) }
}

/** The part that no worker serves: see `job_unserved`. */
type Unserved = 'queue' | 'kind' | null
/** The first of the jobs that have to end before, where some have to: see `job_unmet_dependencies`. */
type Needs = readonly { readonly id: number; readonly state: string }[] | null

const maxNamed = 3

/** The wording of lists, for what `jobs.find` reports of one job. */
function waitReasonOf(unserved: Unserved, needs: Needs): string | null {
  if (unserved === 'queue') return 'no worker serves its queue'
  if (unserved === 'kind') return 'no worker of its queue has its kind'
  if (needs === null) return null
  if (needs.length === 0) return 'the jobs before it have ended: it is being released'
  const named = needs.slice(0, maxNamed).map(({ id, state }) => `${id} (${state})`)
  return `waits for ${needs.length === 1 ? 'job' : 'jobs'} ${named.join(', ')}${needs.length > maxNamed ? ', …' : ''}`
}

function readDetails(
  { failures, log, ...row }: NonNullable<JobAnswer['job']>,
  linked: LinkedJob[],
  others: number,
): JobDetails {
  return {
    ...readRow<JobRow>(row, ...dates, 'pausedAt'),
    // Nothing is told apart from what was too large to tell.
    input: row.inputBytes > maxBytes ? undefined : row.input,
    result: row.resultBytes === null || row.resultBytes > maxBytes ? undefined : row.result,
    log: log ?? [],
    attempts: (failures ?? []).map(({ at, claimedAt, ...same }) => ({
      ...same,
      at: new Date(at),
      claimedAt: claimedAt ? new Date(claimedAt) : null,
      instance: same.instance ?? null,
    })),
    linked,
    others,
  }
}
