import { HoldfastError, isInstance, memberOf, toJson, toRecordedError, UsageError } from '../base/index.js'
import type { RecordedFailure } from './errors.js'

/** An answer as it is written down. */
export interface StoredAnswer {
  /** JSON; null for an answer of nothing. */
  readonly value: string | null
  /** Bytes that belong to it. */
  readonly body: Uint8Array | null
}

/** How answers of one kind are written down and read again. */
export interface AnswerCodec<T> {
  encode(answer: T): StoredAnswer
  decode(written: StoredAnswer): T
  /** Whether what the run did by its `tx` is kept with it. All is, unless the form says otherwise. */
  keepsEffect?(answer: T): boolean
}

/** Answers of any kind that JSON can carry, and undefined. What it cannot carry is refused, not silently changed. */
export const jsonCodec: AnswerCodec<unknown> = {
  // Nothing, too, is an object whose toJSON answers with nothing.
  encode: (answer) => ({ value: toJson(answer, 'an answer') ?? null, body: null }),
  decode: ({ value }) => (value === null ? undefined : JSON.parse(value)),
}

/** What a run threw, as it is written down: without its stack, for duplicates hear it, and they may be far away. */
export function encodeFailure(error: unknown): StoredAnswer {
  const { stack: _, ...failure } = toRecordedError(error)
  return { value: JSON.stringify(failure satisfies RecordedFailure), body: null }
}

export function decodeFailure({ value }: StoredAnswer): RecordedFailure {
  return JSON.parse(value!)
}

/** An error of the moment, such as a database that went away, is no answer; nor is a mistake in the program. */
export function isRecordable(error: unknown): boolean {
  if (!isInstance(error, HoldfastError)) return true
  return !(memberOf(error, 'retryable') || isInstance(error, UsageError))
}
