// Messages between a worker and its threads. Each message is copied, and a copied error would lose its class, its code and its other members.
import { DrainingError, formatDuration, type HoldfastError, isInstance, type RecordedError } from '../base/index.js'
import type { ThreadJob } from './definition.js'
import { JobCancelledError, JobLostError, JobTimeoutError, NonRetryableError } from './errors.js'
import type { JobOutcome } from './outcome.js'

/** Members of an attempt that are copied to the thread. */
export interface CopiedAttempt extends Pick<ThreadJob, 'id' | 'kind' | 'attempt' | 'meta' | 'fence'> {
  readonly timeoutMs: number | undefined
}

/** Starts an attempt. A thread runs one attempt at a time. */
export interface RunMessage {
  readonly type: 'run'
  readonly attempt: CopiedAttempt
  readonly input: unknown
}

/** Aborts the attempt's signal. */
export interface StopMessage {
  readonly type: 'stop'
  readonly code: string
  readonly message: string
  /** Message of the error that caused a loss. */
  readonly cause: string | undefined
  readonly part: DrainingError['part']
}

export type ThreadMessage =
  | { readonly type: 'progress'; readonly value: Parameters<ThreadJob['progress']>[0] }
  | { readonly type: 'log'; readonly line: Parameters<ThreadJob['log']> }
  | AttemptEndMessage

export type AttemptEndMessage =
  | { readonly type: 'returned'; readonly value: unknown }
  | ({ readonly type: 'outcome' } & Pick<JobOutcome, 'state' | 'reason' | 'delayMs'>)
  /** `isFinal` means that another attempt would fail too. */
  | { readonly type: 'failed'; readonly error: RecordedError; readonly isFinal: boolean }
  /** The thread cannot import the module, or the module does not export the handler. */
  | { readonly type: 'unusable'; readonly problem: string; readonly stack: string | undefined }

/** Data with which a thread starts. */
export interface ThreadData {
  readonly module: string
  readonly exportName: string
}

export function stopMessage(reason: HoldfastError): StopMessage {
  const { code, message, cause } = reason
  const part = isInstance(reason, DrainingError) ? reason.part : 'worker'
  return { type: 'stop', code, message, cause: isInstance(cause, Error) ? cause.message : undefined, part }
}

/** Returns the abort reason of the signal in the thread. The reason has the same class as in the worker. */
export function stopReasonOf({ code, message, cause, part }: StopMessage, attempt: CopiedAttempt): HoldfastError {
  const { id, fence, timeoutMs = 0 } = attempt
  if (code === 'JOB_CANCELLED') return new JobCancelledError(id, message)
  if (code === 'JOB_TIMEOUT') return new JobTimeoutError(id, formatDuration(timeoutMs))
  if (code === 'JOB_LOST') return new JobLostError(id, fence, cause === undefined ? undefined : new Error(cause))
  return new DrainingError(part)
}

/** Returns an error with the name, the message, the code and the stack of an error that was thrown in a thread. */
export function thrownError({ name, message, code, stack }: RecordedError, isFinal: boolean): Error {
  const error = isFinal ? new NonRetryableError(message) : new Error(message)
  return Object.assign(error, { name, stack: stack ?? `${name}: ${message}` }, code === undefined ? {} : { code })
}
