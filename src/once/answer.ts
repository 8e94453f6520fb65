import { describe, HoldfastError, UsageError } from '../base/index.js'
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

const refused = new Set(['bigint', 'function', 'symbol'])

/** Answers of any kind that JSON can carry, and undefined. What it cannot carry is refused, not silently changed. */
export const json: Form<unknown> = {
  write(answer) {
    if (answer === undefined) return { value: null, body: null }
    try {
      const value = JSON.stringify(answer, (_, part: unknown) => {
        if (refused.has(typeof part) || (typeof part === 'number' && !Number.isFinite(part))) throw new Uncarried(part)
        return part
      })
      if (value !== undefined) return { value, body: null }
    } catch (error) {
      throw new UsageError(
        `Expected an answer that JSON can carry, got one with ${error instanceof Uncarried ? error.message : error}`,
        'Return plain data: strings, finite numbers, booleans, null, arrays and objects of these.',
      )
    }
    // An object whose toJSON answers with nothing.
    return { value: null, body: null }
  },
  read: ({ value }) => (value === null ? undefined : JSON.parse(value)),
}

class Uncarried extends Error {
  constructor(part: unknown) {
    super(describe(part))
  }
}

/** What a run threw, as it is written down. */
export function writeFailure(error: unknown): Written {
  const { name, message, code } = (error instanceof Error ? error : { name: 'Error', message: String(error) }) as {
    name: string
    message: string
    code?: unknown
  }
  const failure: RecordedFailure = { name, message, ...(typeof code === 'string' ? { code } : {}) }
  return { value: JSON.stringify(failure), body: null }
}

export function readFailure({ value }: Written): RecordedFailure {
  return JSON.parse(value!)
}

/** An error of the moment, such as a database that went away, is no answer; nor is a mistake in the program. */
export function isAnswer(error: unknown): boolean {
  return !(error instanceof HoldfastError && (error.retryable || error instanceof UsageError))
}
