import { HoldfastError, isInstance, memberOf, recordOf, UsageError, writeJson } from '../base/index.js'
import type { RecordedFailure } from './errors.js'

/** An answer as it is written down. */
export interface Written {
  /** JSON; null for an answer of nothing. */
  readonly value: string | null
  /** Bytes that belong to it. */
  readonly body: Uint8Array | null
}

/** How answers of one kind are written down and read again. */
export interface Form<T> {
  write(answer: T): Written
  read(written: Written): T
  /** Whether what the run did by its `tx` is kept with it. All is, unless the form says otherwise. */
  keepsEffect?(answer: T): boolean
}

/** Answers of any kind that JSON can carry, and undefined. What it cannot carry is refused, not silently changed. */
export const json: Form<unknown> = {
  // Nothing, too, is an object whose toJSON answers with nothing.
  write: (answer) => ({ value: writeJson(answer, 'an answer') ?? null, body: null }),
  read: ({ value }) => (value === null ? undefined : JSON.parse(value)),
}

/** What a run threw, as it is written down: without its stack, for duplicates hear it, and they may be far away. */
export function writeFailure(error: unknown): Written {
  const { stack: _, ...failure } = recordOf(error)
  return { value: JSON.stringify(failure satisfies RecordedFailure), body: null }
}

export function readFailure({ value }: Written): RecordedFailure {
  return JSON.parse(value!)
}

/** An error of the moment, such as a database that went away, is no answer; nor is a mistake in the program. */
export function isAnswer(error: unknown): boolean {
  if (!isInstance(error, HoldfastError)) return true
  return !(memberOf(error, 'retryable') || isInstance(error, UsageError))
}
