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

/** A job, without what it carries. */
export interface ObservedJob {
  readonly id: number
  readonly kind: string
  /** Null, like the namespace, for a queue whose name nobody has written down. */
  readonly queue: string | null
  readonly namespace: string | null
  readonly queueKey: string
  readonly state: JobState
  /** Whether it would run if its queue were not paused. */
  readonly paused: boolean
  readonly priority: number
  /** How many attempts have failed. */
  readonly failed: number
  /** How many workers died while they had it. */
  readonly crashes: number
  readonly progress: number | null
  /** Which instance runs it. */
  readonly instance: string | null
  /** Why it was told to stop, while it runs. */
  readonly cancelling: string | null
  /** What keeps it from running, unless it is only a matter of time. */
  readonly waitReason: string | null
  /** What its last attempt failed of, or why it ended. */
  readonly failure: string | null
  readonly enqueuedAt: Date
  /** From when on it may run, while it waits. */
  readonly runAt: Date | null
  readonly claimedAt: Date | null
  readonly endedAt: Date | null
  /** How long ago it ended, or was claimed, or else was enqueued, by the database's clock. */
  readonly forMs: number
  /** How long it still waits. */
  readonly dueInMs: number | null
}

/** Up to so many jobs of a queue are counted. */
export const mostCounted = 10_000

/** A queue, and how many of its jobs are where: exact up to `mostCounted`, and one more where there are more. */
export interface ObservedQueue {
  readonly key: string
  /** Null, like the namespace, where nobody has written it down. */
  readonly name: string | null
  readonly namespace: string | null
  readonly ready: number
  readonly running: number
  readonly waiting: number
  readonly buried: number
  /** How many workers serve it. */
  readonly workers: number
  readonly pausedAt: Date | null
  /** The same as an age, by the database's clock. */
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
