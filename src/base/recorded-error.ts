import { clip, isError, memberOf, messageOf, textOf } from './user-values.js'

/** The recorded fields of an error. */
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
 * Whatever a handler threw, as it is written down. Never throws, and the record is bounded. An object that is no error but has a
 * message is recorded like an error: several libraries throw such objects.
 */
export function toRecordedError(error: unknown): RecordedError {
  const message = memberOf(error, 'message')
  if (!isError(error) && typeof message !== 'string') return { name: 'Error', message: textOf(error) }
  const name = memberOf(error, 'name')
  const code = memberOf(error, 'code')
  // The first look at a stack makes it, of the name and the message as texts: with other values there that calls their `toString`.
  const stack = typeof name === 'string' && typeof message === 'string' ? memberOf(error, 'stack') : undefined
  return {
    name: name === undefined ? 'Error' : textOf(name),
    message: messageOf(error),
    ...(typeof code === 'string' ? { code: clip(code) } : {}),
    ...(typeof stack === 'string' && stack !== '' ? { stack: clip(stack) } : {}),
  }
}
