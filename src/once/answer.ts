import { HoldfastError, isInstance, memberOf, toJson, toRecordedError, UsageError } from '../base/index.js'
import type { RecordedFailure } from './errors.js'

export interface StoredAnswer {
  /** JSON text of the result. Null for undefined. */
  readonly value: string | null
  /** Bytes that are stored in addition to the JSON, such as a response body. */
  readonly body: Uint8Array | null
}

/** Encodes results for storage, and decodes them. */
export interface AnswerCodec<T> {
  encode(answer: T): StoredAnswer
  decode(written: StoredAnswer): T
  /**
   * Returns whether the writes through `tx` commit together with this result. Without this function, they always
   * commit.
   */
  keepsEffect?(answer: T): boolean
}

/** Codec for JSON values and undefined. Throws an error for other values instead of converting them. */
export const jsonCodec: AnswerCodec<unknown> = {
  // toJson also returns undefined for an object whose own toJSON returns undefined.
  encode: (answer) => ({ value: toJson(answer, 'a result') ?? null, body: null }),
  decode: ({ value }) => (value === null ? undefined : JSON.parse(value)),
}

/** Encodes an error without its stack trace, because the senders of duplicates receive the error. */
export function encodeFailure(error: unknown): StoredAnswer {
  const { stack: _, ...failure } = toRecordedError(error)
  return { value: JSON.stringify(failure satisfies RecordedFailure), body: null }
}

export function decodeFailure({ value }: StoredAnswer): RecordedFailure {
  return JSON.parse(value!)
}

/** Returns false for transient errors, such as a lost connection, and for programming errors. */
export function isRecordable(error: unknown): boolean {
  if (!isInstance(error, HoldfastError)) return true
  return !(memberOf(error, 'retryable') || isInstance(error, UsageError))
}
