import { types } from 'node:util'
import { type Events, toRecordedError } from '../base/index.js'
import { toLine } from './line.js'
import { LineLimit } from './line-limit.js'
import { type Line, lines, loggedEvents } from './lines.js'
import { type Logger, type LogLevel, type WriteLine, writeToLogger, writeToStderr } from './logger.js'

interface LogOptions {
  readonly events: Events
  /** Undefined means stderr. False means that nothing is logged. */
  readonly log: Logger | false | undefined
  readonly namespace: string
  /** The instance, whose name may change when it reconnects. */
  readonly instance: { readonly name: string }
}

interface Entry {
  readonly level: LogLevel
  readonly fields: object
}

/** Writes a line for each event that reports a warning or an error. */
export class EventLog {
  readonly #options: LogOptions
  readonly #write: WriteLine
  readonly #limit = new LineLimit<Entry>((count, topic, within, { level, fields }) => {
    const about = topic === '' ? '' : `: ${topic}`
    this.#write(level, `holdfast: … and ${count} more like this in the last ${within}${about}`, fields)
  })
  readonly #stops: (() => void)[] = []

  constructor(options: LogOptions) {
    const { log, events } = options
    this.#options = options
    this.#write = log ? writeToLogger(log) : (_, line) => writeToStderr(line)
    if (log === false) return
    for (const name of loggedEvents) {
      const describe = lines[name] as (event: unknown) => Line | undefined
      this.#stops.push(
        events.on(name, (event) => {
          // A listener that the program adds replaces the line on stderr. The program's logger receives every line.
          if (log || !events.isHandled(name)) this.#log(name, event, describe(event))
        }),
      )
    }
  }

  /** Stops the log, and reports the number of lines that were suppressed. */
  close(): void {
    for (const stop of this.#stops.splice(0)) stop()
    this.#limit.flush()
  }

  #log(event: string, facts: object, line: Line | undefined): void {
    if (!line) return
    const { level, topic, text, failure } = line
    const { namespace, instance } = this.#options
    const origin = { event, namespace, instance: instance.name }
    const { error: _, reason: __, ...plain } = facts as { error?: unknown; reason?: unknown }
    const fields = { ...origin, ...plain }
    if (!this.#limit.admit(topic, { level, fields: origin })) return
    this.#write(level, toLine(`holdfast: ${text}`), failure ? { ...fields, err: errOf(failure.error) } : fields)
  }
}

/** Returns the error for a logger, which reads the error's properties. A value that is not an error can have hostile getters. */
function errOf(error: unknown): object {
  return types.isNativeError(error) ? error : toRecordedError(error)
}
