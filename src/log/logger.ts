import { awaitValue, isThenable, memberOf, type OptionRule, toRecordedError } from '../base/index.js'

/** Severity of a line. `info` lines go to `warn` if the logger has no function `info`. */
export type LogLevel = 'info' | 'warn' | 'error'

/** Logger that receives each line as its only argument, such as `console`. */
export interface MessageLogger {
  warn(message: string): unknown
  error(message: string): unknown
  info?(message: string): unknown
}

/** Logger that receives an object with the fields of the event and then the line, such as a logger of pino. */
export interface FieldsLogger {
  /** Holdfast recognizes the loggers of pino by this function. */
  bindings(): object
  warn(fields: object, message: string): unknown
  error(fields: object, message: string): unknown
  info?(fields: object, message: string): unknown
}

/** Destination of the lines that an instance logs. */
export type Logger = MessageLogger | FieldsLogger

/** Writes one line. Never throws. */
export type WriteLine = (level: LogLevel, line: string, fields: object) => void

/** Rule of the option `log`. */
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
    // The stream has been destroyed.
  }
}

/** Handles the event `error`, which Node.js emits after it has passed the error to the callback of the write. */
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
        ? (logger as FieldsLogger)[call]!(withFields, line)
        : (logger as MessageLogger)[call]!(line)
      // If an asynchronous logger rejects, the process must not exit.
      if (isThenable(returned)) awaitValue(returned).catch(() => {})
    }
    try {
      write(fields)
    } catch {
      try {
        // The error may have a property that throws when the logger reads the property.
        if (hasFields && 'err' in fields) write({ ...fields, err: toRecordedError(fields.err) })
      } catch {
        // A failing logger must not affect the work.
      }
    }
  }
}
