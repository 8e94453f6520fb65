import { HoldfastError, isInstance, messageOf } from '../base/index.js'
import type { ErrorBody } from './wire.js'

const maxTextLength = 8_000
const maxJsonLength = 2_000_000

/** Converts an error for the page. Omits the stack trace, because the stack trace contains file names. */
export function errorBody(error: unknown): ErrorBody {
  if (isInstance(error, HoldfastError))
    return { code: error.code, message: truncate(error.message), hint: error.hint ?? null }
  return { code: 'INTERNAL', message: `The dashboard failed: ${messageOf(error)}`, hint: null }
}

/** Serializes data as JSON and shortens long texts in the middle. */
export function toJson(data: unknown): string {
  const json = JSON.stringify(data ?? null, (_, value) => (typeof value === 'string' ? truncate(value) : value))
  if (json.length <= maxJsonLength) return json
  throw new ViewTooLargeError(json.length)
}

/** Thrown if a dashboard view's data is too large. The dashboard shows the error in place of the view. */
export class ViewTooLargeError extends HoldfastError {
  constructor(length: number) {
    super(`Expected the data of this view to have at most ${maxJsonLength} characters, got ${length}`, {
      code: 'TOO_LARGE',
      retryable: false,
      hint: 'Select a namespace, or use the command line.',
    })
  }
}

function truncate(text: string): string {
  if (text.length <= maxTextLength) return text
  const half = maxTextLength / 2
  return `${text.slice(0, half)} … (${text.length - maxTextLength} characters omitted) … ${text.slice(-half)}`.toWellFormed()
}
