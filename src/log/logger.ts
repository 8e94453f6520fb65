import { awaitValue, isThenable, memberOf, type OptionRule, toRecordedError } from '../base/index.js'

/** Severity of a line. If the logger has no `info` function, `info` lines go to `warn`. */
export type LogLevel = 'info' | 'warn' | 'error'

/**
 * Destination of the lines that an instance logs, such as `console`. Each function receives a line as its only argument.
 *
 * If the logger also has a `bindings` function, as pino's and Fastify's loggers do, each function receives two
 * arguments: an object with the event's fields, and the line.
 */
export interface Logger {
  warn(line: string): unknown
  error(line: string): unknown
  /** Receives information, such as a regained session. Default: `warn`. */
  info?(line: string): unknown
}

type WriteFields = (fields: object, line: string) => unknown

/** Writes one line. Never throws. */
export type WriteLine = (level: LogLevel, line: string, fields: object) => void

/** Rule of the `log` option. */
export const logOption: OptionRule<Logger | false> = {
  expected: 'false, or a logger with the functions warn and error',
  hint: 'For example: log: console, or log: pino(). The default is one line to stderr for each warning and error.',
  read: (given) => (given === false || isLogger(given) ? given : undefined),
}

function isLogger(given: unknown): given is Logger {
  return typeof memberOf(given, 'warn') === 'function' && typeof memberOf(given, 'error') === 'function'
}

let isIgnoringErrors = false

/** Writes the line to stderr. Ignores errors, because a closed stderr must not end the process. */
export function writeToStderr(line: string): void {
  try {
    process.stderr.write(`${line}\n`, (error) => {
      if (error) ignoreErrors()
    })
  } catch {
    // `write` throws if the stream has been destroyed. The line is lost.
  }
}

/** Handles the `error` event, which Node.js emits after it has passed the error to the write's callback. */
function ignoreErrors(): void {
  if (isIgnoringErrors) return
  isIgnoringErrors = true
  const ignore = () => {}
  process.stderr.on('error', ignore)
  setImmediate(() => {
    process.stderr.off('error', ignore)
    isIgnoringErrors = false
  })
}

/** Returns a function that writes lines to the program's logger. */
export function writeToLogger(logger: Logger): WriteLine {
  const hasFields = typeof memberOf(logger, 'bindings') === 'function'
  return (level, line, fields) => {
    const call = level === 'info' && typeof memberOf(logger, 'info') !== 'function' ? 'warn' : level
    const write = (withFields: object) => {
      const returned = hasFields
        ? (logger as unknown as Record<LogLevel, WriteFields>)[call](withFields, line)
        : logger[call]!(line)
      // Ignores an asynchronous logger's rejection, because an unhandled rejection would end the process.
      if (isThenable(returned)) awaitValue(returned).catch(() => {})
    }
    try {
      write(fields)
    } catch {
      try {
        // The error may have a property that throws when the logger reads it.
        if (hasFields && 'err' in fields) write({ ...fields, err: toRecordedError(fields.err) })
      } catch {
        // Ignores the error, because a failing logger must not affect the work.
      }
    }
  }
}
