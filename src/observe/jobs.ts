import {
  type JobMeta,
  type JobProgress,
  type JobState,
  jobStates,
  type LogLine,
  type RecordedError,
} from '../base/index.js'
import { arrayLiteral, loadStatements, type Reader, type Statement } from '../postgres/index.js'
import type { JobSearch, JobWait } from '../search/index.js'
import { inputPatterns, maxIndexed } from './input-index.js'
import {
  nextPlaces,
  placesOf,
  readCursor,
  type SourceState,
  stoppedStates,
  timeParameter,
  writeCursor,
} from './job-cursor.js'
import { type RawRow, readDocument, readRow } from './rows.js'

export { type JobState, jobStates } from '../base/index.js'

export interface QueueFilter {
  readonly namespace?: string | undefined
  /** Name of a queue. */
  readonly queue?: string | undefined
  /** Maximum number of queues, in alphabetical order. Default: all. */
  readonly limit?: number | undefined
  /** Maximum number of jobs to count per queue and state. Default `maxCounted`. */
  readonly countTo?: number | undefined
}

/** Default maximum number of jobs to count per queue and state. */
export const maxCounted = 10_000

export interface QueueName {
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
}

/**
 * A queue and the number of its jobs by state. Each number is exact up to `maxCounted`. If there are more jobs, the
 * number is `maxCounted` + 1.
 */
export interface ObservedQueue extends QueueName {
  /** Start of the pause. Null if the queue is not paused. */
  readonly pausedAt: Date | null
  /** Milliseconds since the queue was paused, according to the database clock. Null if the queue is not paused. */
  readonly pausedForMs: number | null
  /** Number of workers that serve the queue. */
  readonly workers: number
  /** Number of running jobs. */
  readonly running: number
  /** Number of jobs that are ready to run, exact up to 10,000. 10,001 means that there are more. */
  readonly ready: number
  /** Estimated number of ready jobs, based on a sample of job IDs. Null if `ready` is exact. */
  readonly estimated: number | null
  /** Time when the ready job that runs next was enqueued. Null if no job is ready. */
  readonly oldestAt: Date | null
  /** Number of waiting jobs, exact up to 10,000. 10,001 means that there are more. */
  readonly waiting: number
  /** Number of jobs that are waiting for their scheduled time, among the first 10,000 waiting jobs by due time. */
  readonly scheduled: number
  /** Number of jobs that are waiting for their next attempt, among the first 10,000 waiting jobs by due time. */
  readonly retrying: number
  /** Number of jobs that are waiting for a slot in their lane, among the first 10,000 waiting jobs by due time. */
  readonly parked: number
  /**
   * Number of jobs that are waiting for a budget or for the turn of their group, among the first 10,000 waiting jobs by due time.
   */
  readonly budgeted: number
  /** Number of jobs that are waiting for other jobs, among the first 10,000 waiting jobs by due time. */
  readonly blocked: number
  /** Number of buried jobs, exact up to 10,000. 10,001 means that there are more. */
  readonly buried: number
  /** Number of cancelled jobs, exact up to 10,000. 10,001 means that there are more. */
  readonly cancelled: number
  /** Number of expired jobs, exact up to 10,000. 10,001 means that there are more. */
  readonly expired: number
  /** Number of discarded jobs, exact up to 10,000. 10,001 means that there are more. */
  readonly discarded: number
}

/** A queue's recent rates, in jobs per minute. `retried` counts only retried jobs that have not ended yet. */
export type QueueRates = Readonly<Record<RateKind, number>>

/** Event that a rate counts. */
export type RateKind = 'enqueued' | 'done' | 'retried' | 'buried' | 'cancelled' | 'expired' | 'discarded'

/** Rates of an idle queue. */
export const noRates: QueueRates = {
  enqueued: 0,
  done: 0,
  retried: 0,
  buried: 0,
  cancelled: 0,
  expired: 0,
  discarded: 0,
}

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
  /** Whether the job's paused queue is the only reason why the job is not running. */
  readonly paused: boolean
  /** Reason why the job is waiting: its scheduled time, its next attempt, a slot in its lane, a budget, or other jobs. */
  readonly waits: JobWait | null
  /** Lane of the job. */
  readonly lane: string | null
  /** Names of the budgets that the job needs. */
  readonly budgets: readonly string[]
  /** Group of the job. */
  readonly group: string | null
  /** JSON object that was stored with the job. Empty if there is none. */
  readonly meta: JobMeta
  /** Priority. Larger numbers run first. */
  readonly priority: number
  /** Number of failed attempts. */
  readonly failed: number
  /** Number of workers that died while running the job. */
  readonly crashes: number
  /** Last progress that the handler reported: a number or an object. */
  readonly progress: JobProgress | null
  /** Instance that is running the job, or ran it last. Null if the instance is no longer known. */
  readonly instance: string | null
  /** Name of the instance. Null if the instance is no longer known. */
  readonly instanceName: string | null
  /** Host of the job's instance. Null if the instance is no longer known. */
  readonly host: string | null
  /** Operating system process ID of the job's instance. Null if the instance is no longer known. */
  readonly osPid: number | null
  /** Reason for the request to stop the running job. Null if there is no such request. */
  readonly cancelling: string | null
  /**
   * Reason why the job is not running, other than a scheduled time: no worker serves the queue, no worker handles the
   * kind, other jobs have to end first, no slot in the lane is free, or a budget has no room.
   */
  readonly waitReason: string | null
  /** Error of the last attempt, or reason why the job ended. */
  readonly failure: string | null
  /** Name of the error in `failure`. */
  readonly failureName: string | null
  /** Time when the job was enqueued. */
  readonly enqueuedAt: Date
  /** Earliest time when the waiting job may run. */
  readonly runAt: Date | null
  /** Start of the running attempt. */
  readonly claimedAt: Date | null
  /** Time when the job ended. */
  readonly endedAt: Date | null
  /**
   * Milliseconds since the job ended, since the claim (for a running job), or since the job was enqueued (for all other
   * jobs). Measured by the database clock.
   */
  readonly forMs: number
  /** Milliseconds until the waiting job may run. */
  readonly dueInMs: number | null
}

/** Jobs that a search found, and the position at which the search stopped. */
export interface JobPage<Job> {
  readonly rows: readonly Job[]
  /** Position after which the search continues. Null if the search is complete. */
  readonly next: string | null
  /** Number of scanned jobs if the search stopped because it had scanned many jobs. Otherwise null. */
  readonly searchedRows: number | null
}

/** A job that a search found, for an act on many jobs. */
export interface FoundJob {
  readonly id: number
  readonly kind: string
  readonly state: JobState
  /** Time when the job's state last changed. */
  readonly at: Date
}

export interface JobPageOptions {
  readonly namespace?: string | undefined
  /** Maximum number of jobs. Default 50. */
  readonly limit?: number | undefined
  /** `next` of the previous page. */
  readonly after?: string | undefined
}

/** An attempt that failed or ended because its worker died. */
export interface ObservedAttempt extends RecordedError {
  readonly attempt: number
  readonly claimedAt: Date | null
  readonly at: Date
  readonly instance: string | null
  /** Name of the instance. Null if the instance is no longer known. */
  readonly instanceName: string | null
}

/** A recorded step of a job, or a wait that has begun. The step's result is not read. */
export interface ObservedStep {
  readonly name: string
  readonly kind: 'step' | 'cursor' | 'sleep' | 'event'
  /** Number of the attempt that recorded the step, or that began to wait. */
  readonly attempt: number
  readonly startedAt: Date
  /** Time of the record. Null while the job sleeps or waits for the event. */
  readonly endedAt: Date | null
  /** End of the sleep, or time after which the job no longer waits for the event. Null for steps and cursors. */
  readonly until: Date | null
  /** Name of the event. Null if the step does not wait for an event. */
  readonly event: string | null
}

export interface JobDetails
  extends Omit<ObservedJob, 'paused' | 'waitReason' | 'failure' | 'failureName' | 'forMs' | 'dueInMs'> {
  readonly pausedAt: Date | null
  readonly maxCrashes: number
  /** Fencing token of the last claim. */
  readonly fence: number | null
  /** Time until which a worker must claim the job. Null if there is no deadline. */
  readonly startBy: Date | null
  readonly uniqueKey: string | null
  /** Tracing span that enqueued the job, as a W3C traceparent. Null if no tracer was set. */
  readonly traceparent: string | null
  /** ID of the first job of the workflow. */
  readonly workflow: number | null
  /** The job's input. Undefined if the input is larger than `maxBytes`. */
  readonly input: unknown
  readonly inputBytes: number
  readonly result: unknown
  readonly resultBytes: number | null
  readonly error: RecordedError | null
  readonly log: readonly LogLine[]
  readonly attempts: readonly ObservedAttempt[]
  /** The last `maxSteps` steps, in the order of their start. */
  readonly steps: readonly ObservedStep[]
  readonly stepCount: number
  /** The job itself, the jobs in its workflow, its dependencies and its dependents. */
  readonly linked: readonly LinkedJob[]
  /** Number of linked jobs, not counting the job itself. */
  readonly others: number
}

export interface LinkedJob {
  readonly id: number
  readonly kind: string
  readonly state: JobState
  /** IDs of the jobs that have to end before this job can run. */
  readonly after: readonly number[]
  /** Effect on this job if one of the jobs in `after` fails. */
  readonly ifFailed: 'cancel' | 'run' | 'wait'
}

const everyJob: JobSearch = {
  ids: [],
  queues: [],
  kinds: [],
  lanes: [],
  states: jobStates,
  waits: [],
  errors: [],
  words: [],
  input: [],
  meta: [],
  since: null,
  until: null,
}
/**
 * Number of pages that are read from the ends of the tables `job_end` and `job_stopped` to find recently finished jobs.
 */
export const maxHistoryPages = 64
const maxNewJobs = 5_000
/**
 * Maximum number of jobs that a search without an index scans in each state. The number is smaller if the search reads
 * inputs or metas.
 */
const maxSearched = 20_000
const maxInputsSearched = 5_000
/** Maximum size of an input or a result. Larger inputs and results are not read. */
const maxBytes = 65_536
const maxLinked = 60
/** Maximum number of steps that are read. */
const maxSteps = 200
const dates = ['enqueuedAt', 'runAt', 'claimedAt', 'endedAt'] as const

type StatementName = 'queues' | 'rates' | 'search' | 'matching' | 'export' | 'input_index' | 'indexed_input' | 'job'

/** Reads queues and jobs. Part of the `Observer`. */
export class JobsObserver {
  readonly #reader: Reader
  readonly #sql: Record<StatementName, Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./jobs.sql', import.meta.url), schema)
  }

  /** Lists queues by name with the number of jobs in each state. `count` is the total number of matching queues. */
  async queues(only: QueueFilter = {}): Promise<{ rows: ObservedQueue[]; count: number }> {
    const { namespace, queue, limit, countTo = maxCounted } = only
    const values = [namespace ?? null, limit ?? null, countTo + 1, queue ?? null]
    const { count, rows } = await this.#read<{ count: number; rows: RawRow<ObservedQueue>[] | null }>('queues', values)
    return { count, rows: (rows ?? []).map((row) => readRow<ObservedQueue>(row, 'pausedAt', 'oldestAt')) }
  }

  /** Returns the rates for the last minute, by queue key. Omits idle queues. */
  async rates(): Promise<ReadonlyMap<string, QueueRates>> {
    const { overMs, rows } = await this.#read<RatesDocument>('rates', [maxHistoryPages, maxNewJobs])
    const rates = new Map<string, QueueRates>()
    for (const { key, kind, jobs } of rows ?? []) {
      // A few jobs in a very short period are not enough to estimate a rate per minute.
      const perMinute = Math.round((jobs * 60_000) / Math.max(jobs < 1_000 ? 1_000 : 1, overMs))
      rates.set(key, { ...(rates.get(key) ?? noRates), [kind]: perMinute })
    }
    return rates
  }

  /**
   * Finds at most `limit` jobs. Running jobs come first, then failed jobs (newest first), ready jobs in claim order,
   * waiting jobs by due time, and the other ended jobs (newest first). Filters other than the queue and the state have no
   * index. With such a filter, a page scans the next 20,000 jobs of each state, or 5,000 if it reads inputs or metas.
   * `next` continues the search. An empty search matches every job.
   */
  async search(search: Partial<JobSearch>, options: JobPageOptions = {}): Promise<JobPage<ObservedJob>> {
    return this.#page<RawJobRow, ObservedJob>('search', search, options, readJob)
  }

  /** Finds the same jobs as `search`, but reads only the columns that an act on many jobs needs. */
  async matching(search: Partial<JobSearch>, options: JobPageOptions = {}): Promise<JobPage<FoundJob>> {
    return this.#page<RawRow<FoundJob>, FoundJob>('matching', search, options, (row) => readRow<FoundJob>(row, 'at'))
  }

  /** Returns the ended jobs among the given jobs with all columns, as JSON texts, in the given order. */
  async exportOf(ids: readonly number[]): Promise<string[]> {
    const rows = await this.#reader.read<{ job: string }>(this.#sql.export.text, [arrayLiteral(ids)])
    return rows.map(({ job }) => job)
  }

  async #page<Raw, Job>(
    statement: 'search' | 'matching',
    given: Partial<JobSearch>,
    { namespace, limit = 50, after }: JobPageOptions,
    read: (row: Raw) => Job,
  ): Promise<JobPage<Job>> {
    const [search, isIndexCut] = await this.#throughIndex({ ...everyJob, ...given })
    if (!search) return { rows: [], next: null, searchedRows: null }
    const { ids, queues, kinds, lanes, states, waits, errors, words, input, meta, since, until } = search
    const some = (list: readonly string[]) => (list.length > 0 ? list : null)
    const values = [
      ...input.map((one) => ({ source: 'input', ...one })),
      ...meta.map((one) => ({ source: 'meta', ...one })),
    ]
    const isFiltered =
      [kinds, lanes, waits, errors, words, values].some((list) => list.length > 0) || since !== null || until !== null
    const maxScanned = values.length > 0 ? maxInputsSearched : maxSearched
    const places = after === undefined ? placesOf(search) : readCursor(after)
    const document = await this.#read<SearchDocument<Raw>>(statement, [
      namespace ?? null,
      some(queues),
      some(kinds),
      some(lanes),
      ids.length > 0 ? arrayLiteral(ids) : null,
      JSON.stringify(places),
      stoppedStates.filter((state) => states.includes(state)),
      some(waits),
      limit,
      isFiltered ? maxScanned : 0,
      // No index finds the IDs of done jobs by queue.
      isFiltered || queues.length > 0 || namespace !== undefined ? maxScanned : limit + 1,
      JSON.stringify(values),
      errors,
      words,
      timeParameter(since),
      timeParameter(until),
      states,
    ])
    const rows = document.rows ?? []
    const next = nextPlaces(places, document.sources ?? [], rows)
    const hasMoreFound = (document.sources ?? []).some(
      ({ name, found }) => found > rows.filter((row) => row.source === name).length,
    )
    const scanned = (document.sources ?? []).reduce((all, source) => all + source.scanned, 0)
    return {
      rows: rows.map(({ source: _, place: __, ...row }) => read(row as Raw)),
      next: Object.keys(next).length > 0 ? writeCursor(next) : null,
      searchedRows: isIndexCut ? maxIndexed : scanned > 0 && !hasMoreFound ? scanned : null,
    }
  }

  /**
   * If an administrator has created the indexes on inputs, replaces a search by input with a search for the IDs that
   * the indexes find. Returns null if the indexes find no job.
   */
  async #throughIndex(search: JobSearch): Promise<[search: JobSearch | null, isCut: boolean]> {
    const patterns = search.input.flatMap((one) => [inputPatterns(one) ?? []]).find((found) => found.length > 0)
    if (!patterns || search.ids.length > 0) return [search, false]
    const [index] = await this.#reader.read<{ exists: boolean }>(this.#sql.input_index.text)
    if (!index!.exists) return [search, false]
    const [found] = await this.#reader.read<{ ids: string[] }>(this.#sql.indexed_input.text, [patterns, maxIndexed])
    const ids = found!.ids.map(Number)
    return [ids.length > 0 ? { ...search, ids } : null, ids.length === maxIndexed]
  }

  /** Returns one job, or null if it does not exist or its history was deleted. */
  async find(id: number): Promise<JobDetails | null> {
    const { job, others, linked, steps } = await this.#read<JobDocument>('job', [id, maxBytes, maxLinked, maxSteps])
    return job ? readDetails(job, linked ?? [], others, steps ?? []) : null
  }

  async #read<Document>(name: StatementName, values: readonly unknown[]): Promise<Document> {
    return (await readDocument<Document>(this.#reader, this.#sql[name], values))!
  }
}

interface SearchDocument<Raw> {
  rows: (Raw & { source: string; place: number[] })[] | null
  sources: SourceState[] | null
}

interface RatesDocument {
  overMs: number
  rows: { key: string; kind: RateKind; jobs: number }[] | null
}

type RawJobRow = RawRow<Omit<ObservedJob, 'waitReason'>> & { unserved: Unserved; needs: Needs }

type JobRow = Omit<JobDetails, 'log' | 'attempts' | 'steps' | 'linked' | 'others'>

interface JobDocument {
  job: (RawRow<JobRow> & { log: LogLine[] | null; failures: RawAttempt[] | null }) | null
  others: number
  linked: LinkedJob[] | null
  steps: RawRow<ObservedStep>[] | null
}

type RawAttempt = Omit<ObservedAttempt, 'at' | 'claimedAt'> & { at: string; claimedAt: string | null }

function readJob({ unserved, needs, ...row }: RawJobRow): ObservedJob {
  const place = placeReasonOf(row)
  return {
    ...readRow<Omit<ObservedJob, 'waitReason'>>(row, ...dates),
    waitReason: waitReasonOf(unserved, needs) ?? place,
  }
}

function placeReasonOf({
  waits,
  lane,
  budgets,
  group,
}: Pick<RawJobRow, 'waits' | 'lane' | 'budgets' | 'group'>): string | null {
  if (waits === 'lane') return `waiting for a slot in lane ${lane}`
  if (waits !== 'budget') return null
  const turn = group === null ? [] : [`the turn of group ${group}`]
  return `waiting for ${[...budgets.map((name) => `budget ${name}`), ...turn].join(' or ')}`
}

/** Reason that the SQL function `job_unserved` returns. */
type Unserved = 'queue' | 'kind' | null
/**
 * First unmet dependencies that the SQL function `job_unmet_dependencies` returns. Null if the job is not waiting for
 * other jobs.
 */
type Needs = readonly { readonly id: number; readonly state: string }[] | null

const maxNamed = 3

/** Returns the reason why a job is not running, as text. */
function waitReasonOf(unserved: Unserved, needs: Needs): string | null {
  if (unserved === 'queue') return "no worker serves the job's queue"
  if (unserved === 'kind') return "none of the queue's workers handles jobs of this kind"
  if (needs === null) return null
  if (needs.length === 0) return 'all dependencies have ended, and the job will become ready soon'
  const named = needs.slice(0, maxNamed).map(({ id, state }) => `${id} (${state})`)
  return `waiting for ${needs.length === 1 ? 'job' : 'jobs'} ${named.join(', ')}${needs.length > maxNamed ? ', …' : ''}`
}

function readDetails(
  { failures, log, ...row }: NonNullable<JobDocument['job']>,
  linked: LinkedJob[],
  others: number,
  steps: RawRow<ObservedStep>[],
): JobDetails {
  return {
    ...readRow<JobRow>(row, ...dates, 'pausedAt', 'startBy'),
    // A value that is too large becomes `undefined`, because `null` is a valid value.
    input: row.inputBytes > maxBytes ? undefined : row.input,
    result: row.resultBytes === null || row.resultBytes > maxBytes ? undefined : row.result,
    log: log ?? [],
    attempts: (failures ?? []).map(({ at, claimedAt, ...same }) => ({
      ...same,
      at: new Date(at),
      claimedAt: claimedAt ? new Date(claimedAt) : null,
      instance: same.instance ?? null,
      instanceName: same.instanceName ?? null,
    })),
    steps: steps.map((step) => readRow<ObservedStep>(step, 'startedAt', 'endedAt', 'until')),
    linked,
    others,
  }
}
