import type { JobMeta, JobProgress, JobState, LogLine } from '../base/index.js'
import type { RecordedError } from './errors.js'
import type { JobStep } from './job-step.js'
import { noMeta } from './meta.js'
import { type WaitsFor, type WaitsForRow, waitsForOf } from './waits-for.js'

/** Attempt that failed or during which the worker died. */
export interface FailedAttempt extends RecordedError {
  /** Attempt number. */
  readonly attempt: number
  /** Time when the attempt failed, or when the worker was detected as dead. */
  readonly at: string
  /** Time when the worker claimed the job. */
  readonly claimedAt: string
  /** ID of the instance that ran the attempt. Null if the instance is no longer known. */
  readonly instance: string | null
  /** Name of the instance that ran the attempt. Null if the instance is no longer known. */
  readonly instanceName: string | null
}

/** A job's status. */
export interface JobStatus {
  /** The job's ID. */
  readonly id: number
  /** Name of the job definition. */
  readonly kind: string
  /** Name of the queue. */
  readonly queue: string
  /** The job's state. */
  readonly state: JobState
  /** Reason why the job is not running yet. Undefined if the job is running or has ended. */
  readonly waitsFor: WaitsFor | undefined
  /** The job's input, as any JSON value. */
  readonly input: unknown
  /** JSON object that was stored with the job. Empty if there is none. */
  readonly meta: JobMeta
  /** Priority. Larger numbers run first. */
  readonly priority: number
  /** Time when the job was enqueued. */
  readonly enqueuedAt: Date
  /** Earliest time when a waiting job may run. */
  readonly runAt: Date | undefined
  /** Time until which a worker must claim the job. Undefined if there is no deadline, or if a worker has claimed the job. */
  readonly startBy: Date | undefined
  /** Time when the running attempt was claimed. */
  readonly claimedAt: Date | undefined
  /** Time when the job ended. */
  readonly endedAt: Date | undefined
  /** ID of the instance that is running the job, or that ran a finished job's last attempt. */
  readonly instance: string | undefined
  /** Name of this instance. */
  readonly instanceName: string | undefined
  /** Number of failed attempts. */
  readonly failed: number
  /** Number of workers that died while holding the job. */
  readonly crashes: number
  /** The last 20 attempts that failed or crashed. */
  readonly failures: readonly FailedAttempt[]
  /** Last progress that the handler reported: a number or an object. */
  readonly progress: JobProgress | undefined
  /** The last 100 lines that the handler logged, in all attempts. */
  readonly log: readonly LogLine[]
  /** Steps that the handler has recorded, and waits that have begun, in the order of their start. */
  readonly steps: readonly JobStep[]
  /** Value that the handler returned, as any JSON value. */
  readonly result: unknown
  /** Error that ended the job. */
  readonly error: RecordedError | undefined
  /** Reason for cancelling a running job. Undefined if no cancellation was requested. */
  readonly cancelling: string | undefined
}

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
  readonly start_by: Date | null
  readonly claimed_at: Date | null
  readonly ended_at: Date | null
  readonly failed: number
  readonly crashes: number
  readonly progress: string | null
  readonly log: string | null
  readonly failures: string | null
  readonly instance: string | null
  readonly instance_name: string | null
  readonly cancelled: string | null
  readonly meta: string | null
  readonly steps: string | null
}

export function statusOf(row: StatusRow, why: WaitsForRow | undefined): JobStatus {
  const steps: JobStep[] = row.steps === null ? [] : JSON.parse(row.steps)
  return {
    id: Number(row.id),
    kind: row.kind,
    queue: row.queue_name ?? row.queue,
    state: row.state,
    waitsFor: why && waitsForOf(why, steps),
    input: JSON.parse(row.payload),
    meta: row.meta === null ? noMeta : JSON.parse(row.meta),
    priority: row.priority,
    enqueuedAt: row.enqueued_at,
    runAt: row.run_at ?? undefined,
    startBy: row.start_by ?? undefined,
    claimedAt: row.claimed_at ?? undefined,
    endedAt: row.ended_at ?? undefined,
    instance: row.instance ?? undefined,
    instanceName: row.instance_name ?? undefined,
    failed: row.failed,
    crashes: row.crashes,
    failures: row.failures === null ? [] : JSON.parse(row.failures),
    progress: row.progress === null ? undefined : JSON.parse(row.progress),
    log: row.log === null ? [] : JSON.parse(row.log),
    steps,
    result: row.result === null ? undefined : JSON.parse(row.result),
    error: row.error === null ? undefined : JSON.parse(row.error),
    cancelling: row.cancelled ?? undefined,
  }
}
