import type { JobState } from '../base/index.js'
import { arrayOf, loadStatements, type Reader, type Statement } from '../postgres/index.js'
import type { JobSearch, JobWait } from '../search/index.js'
import { mostCounted, type Needs, type QueueFilter, type Unserved, waitReasonOf } from './jobs.js'

/** A queue, and how many of its jobs are where: each exact up to `mostCounted`, and one more where there are more. */
export interface BusyQueue {
  readonly key: string
  /** Null, like the namespace, where nobody has written it down. */
  readonly name: string | null
  readonly namespace: string | null
  readonly pausedAt: Date | null
  /** How many workers serve it. */
  readonly workers: number
  readonly running: number
  readonly ready: number
  /** When the one that is next was enqueued; null when none is ready. */
  readonly oldestAt: Date | null
  /** What waits, among the first `mostCounted` that are due: for its time, for its next attempt, in a lane, for other jobs. */
  readonly scheduled: number
  readonly retrying: number
  readonly parked: number
  readonly blocked: number
  readonly buried: number
  readonly cancelled: number
  readonly discarded: number
  /** What happened lately, each in jobs a minute; `retried` counts those that have not ended since. */
  readonly perMinute: Readonly<Record<Happening, number>>
}

const happenings = ['enqueued', 'done', 'retried', 'buried', 'cancelled', 'discarded'] as const
export type Happening = (typeof happenings)[number]

/** A job that was found, without what it carries. */
export interface FoundJob {
  readonly id: number
  readonly kind: string
  /** Null, like the namespace, where nobody has written it down. */
  readonly queue: string | null
  readonly namespace: string | null
  readonly queueKey: string
  readonly state: JobState
  /** Whether it would run if its queue were not paused. */
  readonly isPaused: boolean
  /** What it waits for. */
  readonly waits: JobWait | null
  readonly lane: string | null
  readonly priority: number
  readonly failed: number
  readonly crashes: number
  readonly progress: number | null
  /** Who runs it, or ran it last; null like the rest where that is known no more. */
  readonly instance: string | null
  readonly host: string | null
  readonly osPid: number | null
  /** Why it was told to stop, while it runs. */
  readonly cancelling: string | null
  /** What keeps it from running, unless it is only a matter of time. */
  readonly waitReason: string | null
  /** What its last attempt failed of, or why it ended. */
  readonly errorName: string | null
  readonly errorMessage: string | null
  readonly enqueuedAt: Date
  readonly runAt: Date | null
  readonly claimedAt: Date | null
  readonly endedAt: Date | null
}

export interface FoundJobs {
  readonly rows: FoundJob[]
  /** Whether there are more than these. */
  readonly hasMore: boolean
  /** So many of each state were looked through, and that was not all; null when all were. */
  readonly lookedAt: number | null
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

export interface JobDetails extends Omit<FoundJob, 'isPaused' | 'waitReason' | 'errorName' | 'errorMessage'> {
  readonly pausedAt: Date | null
  readonly maxCrashes: number
  /** Of its last claim. */
  readonly fence: number | null
  readonly uniqueKey: string | null
  /** The first job of its workflow. */
  readonly workflow: number | null
  /** Undefined when it is larger than `mostBytes`. */
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
  readonly tied: readonly TiedJob[]
  /** How many others there are. */
  readonly others: number
}

export interface TiedJob {
  readonly id: number
  readonly kind: string
  readonly state: JobState
  /** The jobs that have to end before it. */
  readonly after: readonly number[]
  /** What becomes of it when one of these fails. */
  readonly ifFailed: 'cancel' | 'run' | 'wait'
}

/** So many queues are told of, the first by name. */
const mostQueues = 200
/** So many of the last pages of the history are read to tell what ended lately: 512 kB, some thousands of ends. */
const mostPages = 64
const mostNew = 5_000
/** Where no index answers, so many jobs are looked through in each state; inputs are longer to read. */
const mostLooked = 20_000
const mostInputsLooked = 5_000
/** So many bytes of an input or a result are read. */
const mostBytes = 65_536
const mostTied = 60

type Moments = 'pausedAt' | 'oldestAt' | 'enqueuedAt' | 'runAt' | 'claimedAt' | 'endedAt'
/** As JSON tells it: moments are milliseconds. */
type Told<T> = { [Name in keyof T]: Name extends Moments ? number | (null extends T[Name] ? null : never) : T[Name] }

/** Queues and jobs, as whoever watches them wants to see them. Part of the `Observer`. */
export class WorkObserver {
  readonly #reader: Reader
  readonly #sql: Record<'queues' | 'lately' | 'search' | 'job', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./work.sql', import.meta.url), schema)
  }

  /** The queues by name, at most 200 of them, what is in them, and what went through them in the last minute; `count`: of all. */
  async queues({ namespace, queue }: QueueFilter = {}): Promise<{
    rows: BusyQueue[]
    count: number
  }> {
    const bounds = [namespace ?? null, mostQueues, mostCounted + 1, queue ?? null]
    const { count, rows } = await this.#ask<{ count: number; rows: Told<Omit<BusyQueue, 'perMinute'>>[] | null }>(
      'queues',
      bounds,
    )
    const lately = await this.#ask<Lately>('lately', [mostPages, mostNew])
    const rates = ratesOf(lately)
    const none = Object.fromEntries(happenings.map((what) => [what, 0])) as Record<Happening, number>
    return {
      count,
      rows: (rows ?? []).map((row) => ({
        ...row,
        pausedAt: dateOf(row.pausedAt),
        oldestAt: dateOf(row.oldestAt),
        perMinute: { ...none, ...rates.get(row.key) },
      })),
    }
  }

  /**
   * Jobs, at most `limit`: first those that run, then the ready ones in their order, then those that wait, the next due one
   * first, then those that have ended, the newest first. Where no index answers it looks through the first twenty thousand of a
   * state (of those that are done: of all that have ended), five thousand where inputs are read, and says if these were not all.
   */
  async search(
    search: JobSearch,
    { namespace, limit = 50 }: { readonly namespace?: string | undefined; readonly limit?: number | undefined } = {},
  ): Promise<FoundJobs> {
    const { ids, queues, kinds, lanes, states, onlyFailed, waits, input } = search
    const some = (list: readonly string[]) => (list.length > 0 ? list : null)
    const isFiltered = kinds.length + lanes.length + onlyFailed.length + waits.length + input.length > 0
    const bound = input.length > 0 ? mostInputsLooked : mostLooked
    const looked = isFiltered ? bound : 0
    const looksFurther = isFiltered || queues.length > 0 || namespace !== undefined
    const { rows, isCut } = await this.#ask<{ rows: FoundRow[] | null; isCut: boolean }>('search', [
      namespace ?? null,
      some(queues),
      some(kinds),
      some(lanes),
      ids.length > 0 ? arrayOf(ids) : null,
      states,
      onlyFailed,
      some(waits),
      JSON.stringify(input),
      limit,
      looked,
      looksFurther ? bound : limit + 1,
    ])
    const found = (rows ?? []).map(readFound)
    const hasMore = found.length > limit
    return { rows: found.slice(0, limit), hasMore, lookedAt: isCut && looksFurther && !hasMore ? bound : null }
  }

  /** One job with all that is known of it; undefined when there is none, or it ended so long ago that it is forgotten. */
  async job(id: number): Promise<JobDetails | undefined> {
    // It may change its table in the very moment of the question.
    for (let tries = 0; tries < 2; tries++) {
      const { job, others, tied } = await this.#ask<JobAnswer>('job', [id, mostBytes, mostTied])
      if (job) return readDetails(job, tied ?? [], others)
    }
    return undefined
  }

  async #ask<Answer>(name: 'queues' | 'lately' | 'search' | 'job', values: readonly unknown[]): Promise<Answer> {
    const [row] = await this.#reader.read<{ answer: Answer }>(this.#sql[name].text, values)
    return row!.answer
  }
}

interface Lately {
  overMs: number
  rows: { key: string; what: Happening; jobs: number }[] | null
}

type FoundRow = Told<Omit<FoundJob, 'waitReason'>> & { unserved: Unserved; needs: Needs }

interface JobAnswer {
  job:
    | (Told<Omit<JobDetails, 'log' | 'attempts' | 'tied' | 'others'>> & {
        log: string[] | null
        failures: FailureSaid[] | null
      })
    | null
  others: number
  tied: TiedJob[] | null
}

type FailureSaid = Omit<ObservedAttempt, 'at' | 'claimedAt'> & { at: string; claimedAt: string | null }

function ratesOf({ overMs, rows }: Lately): Map<string, Partial<Record<Happening, number>>> {
  const rates = new Map<string, Partial<Record<Happening, number>>>()
  for (const { key, what, jobs } of rows ?? []) {
    const perMinute = (jobs * 60_000) / Math.max(1_000, overMs)
    rates.set(key, { ...rates.get(key), [what]: Math.round(perMinute) })
  }
  return rates
}

function readFound({ unserved, needs, ...row }: FoundRow): FoundJob {
  return { ...row, waitReason: waitReasonOf(unserved, needs), ...momentsOf(row) }
}

function readDetails(
  { failures, log, ...row }: NonNullable<JobAnswer['job']>,
  tied: TiedJob[],
  others: number,
): JobDetails {
  return {
    ...row,
    ...momentsOf(row),
    pausedAt: dateOf(row.pausedAt),
    // Nothing is told apart from what was too large to tell.
    input: row.inputBytes > mostBytes ? undefined : row.input,
    result: row.resultBytes === null || row.resultBytes > mostBytes ? undefined : row.result,
    log: log ?? [],
    attempts: (failures ?? []).map(({ at, claimedAt, ...same }) => ({
      ...same,
      at: new Date(at),
      claimedAt: claimedAt ? new Date(claimedAt) : null,
      instance: same.instance ?? null,
    })),
    tied,
    others,
  }
}

function momentsOf(row: Pick<Told<FoundJob>, 'enqueuedAt' | 'runAt' | 'claimedAt' | 'endedAt'>) {
  return {
    enqueuedAt: new Date(row.enqueuedAt),
    runAt: dateOf(row.runAt),
    claimedAt: dateOf(row.claimedAt),
    endedAt: dateOf(row.endedAt),
  }
}

function dateOf(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}
