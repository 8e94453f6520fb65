import { clip, errorLine, isError, textOf } from './user-values.js'

/** Line that a handler logged with `log`. */
export interface LogLine {
  /** Time of the call, according to the clock of the instance that ran the handler. */
  readonly at: string
  /** Number of the attempt that logged the line, starting at 1. 0 for a line that Holdfast itself has added. */
  readonly attempt: number
  /** Number of the line in its attempt, starting at 1. If a number is missing, the log has grown past its limit. */
  readonly number: number
  /** Text of the line, with at most 2,000 characters. */
  readonly text: string
  /** Data that was logged with the text, as any JSON value. */
  readonly data?: unknown
}

/** Maximum number of lines that are kept for a job or a run. The SQL statements that append lines use the same number. */
const maxLines = 100
/** Maximum number of characters in the text of a line. */
const maxText = 2_000
/** Maximum size of a line's data, as JSON. */
const maxDataBytes = 2_000

/**
 * Log lines of one attempt that have not been written to the database yet. `add` never throws and never waits, and keeps only the last 100
 * lines, so a handler that logs in a loop fills neither the memory nor the database.
 */
export class LogBuffer {
  #lines: LogLine[] = []
  #count = 0

  add(attempt: number, text: unknown, data: unknown): void {
    this.#count++
    // The cut can leave half of a surrogate pair.
    const shown = textOf(text).slice(0, maxText).toWellFormed()
    const line = { at: new Date().toISOString(), attempt, number: this.#count, text: shown }
    this.#lines.push(data === undefined ? line : { ...line, data: copyOf(data) })
    if (this.#lines.length >= 2 * maxLines) this.#lines = this.#lines.slice(-maxLines)
  }

  /** Returns the collected lines and removes them from this object. */
  take(): LogLine[] {
    const lines = this.#lines.slice(-maxLines)
    this.#lines = []
    return lines
  }
}

/** Returns a copy of the data that JSON can represent, or a text that explains why the data is not stored. */
function copyOf(data: unknown): unknown {
  let parts = 0
  try {
    const json = JSON.stringify(data, (_, value: unknown) => {
      if (++parts > maxDataBytes) throw new RangeError(`more than ${maxDataBytes} parts`)
      return isError(value) ? errorLine(value) : jsonOf(value)
    })
    if (json === undefined) return textOf(data)
    const bytes = Buffer.byteLength(json)
    return bytes > maxDataBytes
      ? `not stored: ${bytes} bytes of JSON, at most ${maxDataBytes}`
      : JSON.parse(validEscapes(json))
  } catch (error) {
    return `not stored: ${errorLine(error).slice(0, 200).toWellFormed()}`
  }
}

/**
 * Replaces zero bytes and halves of surrogate pairs in JSON, also in keys. PostgreSQL rejects their escapes, and one statement
 * writes the notes of several attempts. The last alternative consumes all other escapes, such as an escaped backslash.
 */
export function validEscapes(json: string): string {
  return json.replace(/\\(?:u0000|ud[89a-f]..|.)/g, (found) => (found.length > 2 ? '\uFFFD' : found))
}

function jsonOf(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return clip(value)
    case 'bigint':
    case 'function':
    case 'symbol':
      return textOf(value)
    default:
      return value
  }
}
