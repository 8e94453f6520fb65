import type { JobState } from '../base/index.js'

export { type JobState, jobStates } from '../base/index.js'

export interface QueueFilter {
  readonly namespace?: string | undefined
  /** The name of a queue. */
  readonly queue?: string | undefined
}

export interface JobFilter extends QueueFilter {
  readonly states?: readonly JobState[] | undefined
  /** The name of a definition. */
  readonly kind?: string | undefined
  /** How many at most. Default 50. */
  readonly limit?: number | undefined
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
  /** Whether only the pause of its queue keeps the job from running. */
  readonly paused: boolean
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
  /** Instance that runs the job. */
  readonly instance: string | null
  /** Reason why the running job was asked to stop. */
  readonly cancelling: string | null
  /**
   * What keeps the job from running, unless it is only a matter of time: no worker serves its queue or its kind, or other jobs
   * have to end first.
   */
  readonly waitReason: string | null
  /** Error of the last attempt, or reason why the job ended. */
  readonly failure: string | null
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

/** Up to so many jobs of a queue are counted. */
export const mostCounted = 10_000

/** A queue and the number of its jobs by state. Each number is exact up to `mostCounted`, and one more if there are more. */
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
  /** Number of jobs that may run, counted up to 10,000. 10,001 if there are more. */
  readonly ready: number
  /** Number of running jobs, counted up to 10,000. 10,001 if there are more. */
  readonly running: number
  /** Number of waiting jobs, counted up to 10,000. 10,001 if there are more. */
  readonly waiting: number
  /** Number of buried jobs, counted up to 10,000. 10,001 if there are more. */
  readonly buried: number
  /** Number of workers that serve the queue. */
  readonly workers: number
  /** Start of the pause. Null if the queue is not paused. */
  readonly pausedAt: Date | null
  /** Milliseconds since then, by the database clock. */
  readonly pausedForMs: number | null
}

export interface JobRow {
  id: string
  kind: string
  queue: string | null
  namespace: string | null
  queue_key: string
  state: JobState
  paused: boolean
  priority: number
  failed: number
  crashes: number
  progress: number | null
  instance: string | null
  cancelling: string | null
  failure: string | null
  unserved: Unserved
  needs: Needs
  enqueued_ms: number
  run_at_ms: number | null
  claimed_ms: number | null
  ended_ms: number | null
  for_ms: number
  due_in_ms: number | null
}

export interface QueueRow {
  key: string
  namespace: string | null
  name: string | null
  ready: number
  running: number
  waiting: number
  buried: number
  paused_ms: number | null
  paused_for_ms: number | null
  workers: number
}

export function readJob(row: JobRow): ObservedJob {
  const { id, queue_key, unserved, needs, enqueued_ms, run_at_ms, claimed_ms, ended_ms, for_ms, due_in_ms, ...same } =
    row
  return {
    ...same,
    id: Number(id),
    waitReason: waitReasonOf(unserved, needs),
    queueKey: queue_key,
    enqueuedAt: new Date(enqueued_ms),
    runAt: dateOf(run_at_ms),
    claimedAt: dateOf(claimed_ms),
    endedAt: dateOf(ended_ms),
    forMs: Math.round(for_ms),
    dueInMs: due_in_ms === null ? null : Math.round(due_in_ms),
  }
}

/** Which part no worker serves: see `job_unserved`. */
export type Unserved = 'queue' | 'kind' | null
/** The first jobs that have to end before, where others have to: see `job_needs`. */
export type Needs = readonly { readonly id: number; readonly state: string }[] | null

const mostNamed = 3

/** The wording of lists, for what `find` tells of one job. */
export function waitReasonOf(unserved: Unserved, needs: Needs): string | null {
  if (unserved === 'queue') return 'no worker serves its queue'
  if (unserved === 'kind') return 'no worker of its queue has its kind'
  if (needs === null) return null
  if (needs.length === 0) return 'the jobs before it have ended: it is being released'
  const named = needs.slice(0, mostNamed).map(({ id, state }) => `${id} (${state})`)
  return `waits for ${needs.length === 1 ? 'job' : 'jobs'} ${named.join(', ')}${needs.length > mostNamed ? ', …' : ''}`
}

export function readQueue(row: QueueRow): ObservedQueue {
  const { paused_ms, paused_for_ms, ...same } = row
  return {
    ...same,
    pausedAt: dateOf(paused_ms),
    pausedForMs: paused_for_ms === null ? null : Math.round(paused_for_ms),
  }
}

function dateOf(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}
