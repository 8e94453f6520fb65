import type { RecordedError } from './errors.js'
import { type WaitsFor, type WaitsForRow, waitsForOf } from './waits-for.js'

/** An attempt that failed, or whose worker died. */
export interface FailedAttempt extends RecordedError {
  readonly attempt: number
  /** When it failed, or was found to be over. */
  readonly at: string
  readonly claimedAt: string
  /** Which instance ran it. */
  readonly instance: string | null
}

/** A job, as a look at the database shows it. */
export interface JobStatus {
  readonly id: number
  readonly kind: string
  readonly queue: string
  readonly state: 'ready' | 'running' | 'waiting' | 'done' | 'cancelled' | 'discarded' | 'buried'
  /** Why it does not run yet; undefined when it runs, or has ended. */
  readonly waitsFor: WaitsFor | undefined
  readonly input: unknown
  readonly priority: number
  readonly enqueuedAt: Date
  /** From when on it may run, while it waits. */
  readonly runAt: Date | undefined
  readonly claimedAt: Date | undefined
  readonly endedAt: Date | undefined
  /** Which instance runs it. */
  readonly instance: string | undefined
  /** How many attempts have failed. */
  readonly failed: number
  /** How many workers died while they had it. */
  readonly crashes: number
  /** What attempts failed or crashed of, the last twenty. */
  readonly failures: readonly FailedAttempt[]
  readonly progress: number | undefined
  readonly log: readonly string[]
  readonly result: unknown
  readonly error: RecordedError | undefined
  /** Why it was told to stop, while it runs. */
  readonly cancelling: string | undefined
}

/** As the statement `find` answers. */
export interface StatusRow {
  readonly id: string
  readonly kind: string
  readonly queue: string
  readonly queue_name: string | null
  readonly state: JobStatus['state']
  readonly priority: number
  readonly payload: string
  readonly result: string | null
  readonly error: string | null
  readonly enqueued_at: Date
  readonly run_at: Date | null
  readonly claimed_at: Date | null
  readonly ended_at: Date | null
  readonly failed: number
  readonly crashes: number
  readonly progress: number | null
  readonly log: string[] | null
  readonly failures: string | null
  readonly instance: string | null
  readonly cancelled: string | null
}

export function statusOf(row: StatusRow, why: WaitsForRow | undefined): JobStatus {
  return {
    id: Number(row.id),
    kind: row.kind,
    queue: row.queue_name ?? row.queue,
    state: row.state,
    waitsFor: why && waitsForOf(why),
    input: JSON.parse(row.payload),
    priority: row.priority,
    enqueuedAt: row.enqueued_at,
    runAt: row.run_at ?? undefined,
    claimedAt: row.claimed_at ?? undefined,
    endedAt: row.ended_at ?? undefined,
    instance: row.instance ?? undefined,
    failed: row.failed,
    crashes: row.crashes,
    failures: row.failures === null ? [] : JSON.parse(row.failures),
    progress: row.progress ?? undefined,
    log: row.log ?? [],
    result: row.result === null ? undefined : JSON.parse(row.result),
    error: row.error === null ? undefined : JSON.parse(row.error),
    cancelling: row.cancelled ?? undefined,
  }
}
