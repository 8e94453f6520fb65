import { clip, isError, memberOf, messageOf, textOf } from './user-values.js'

/** An error's recorded fields. */
export interface RecordedError {
  /** Name of the error. */
  readonly name: string
  /** Message of the error. */
  readonly message: string
  /** Code of the error, if it has one. */
  readonly code?: string | undefined
  /** Stack trace of the error, if it has one. */
  readonly stack?: string | undefined
}

/**
 * Converts any value that a handler threw to a record of limited size. Never throws. An object with a `message` is recorded like an error
 * even if it is not an Error, because several libraries throw such objects.
 */
export function toRecordedError(error: unknown): RecordedError {
  const message = memberOf(error, 'message')
  if (!isError(error) && typeof message !== 'string') return { name: 'Error', message: textOf(error) }
  const name = memberOf(error, 'name')
  const code = memberOf(error, 'code')
  // The first read of `stack` formats the name and the message. If the name or the message is not a string, formatting would call its
  // `toString` method.
  const stack = typeof name === 'string' && typeof message === 'string' ? memberOf(error, 'stack') : undefined
  return {
    name: name === undefined ? 'Error' : textOf(name),
    message: messageOf(error),
    ...(typeof code === 'string' ? { code: clip(code) } : {}),
    ...(typeof stack === 'string' && stack !== '' ? { stack: clip(stack) } : {}),
  }
}
