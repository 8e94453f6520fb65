import { formatDuration } from '../base/index.js'

interface Window<T> {
  lines: number
  suppressed: number
  /** Last suppressed line. The line that reports the number of suppressed lines has the same level and fields. */
  last: T | undefined
  readonly timer: NodeJS.Timeout
}

const maxLines = 10
const windowMs = 10_000
/** Maximum number of topics that are counted at the same time. Further topics share one count. */
const maxTopics = 1_000

/** Limits that have suppressed lines whose number has not been reported yet. */
const unreported = new Set<{ flush(): void }>()

/**
 * Limits each topic to 10 lines every 10 seconds. After the 10 seconds, or when the process exits, reports the number
 * of suppressed lines. The timers do not keep the process running.
 */
export class LineLimit<T> {
  readonly #report: (count: number, topic: string, within: string, last: T) => void
  readonly #windows = new Map<string, Window<T>>()

  constructor(report: (count: number, topic: string, within: string, last: T) => void) {
    this.#report = report
  }

  /** Returns whether the line may be written. Counts the line if not. */
  admit(topic: string, line: T): boolean {
    const known = this.#windows.get(topic)
    if (known === undefined && this.#windows.size >= maxTopics && topic !== '') return this.admit('', line)
    const window = known ?? this.#begin(topic)
    if (window.lines < maxLines) {
      window.lines++
      return true
    }
    window.suppressed++
    window.last = line
    if (unreported.size === 0) process.on('exit', flushAll)
    unreported.add(this)
    return false
  }

  /** Reports all suppressed lines now. */
  flush(): void {
    for (const topic of [...this.#windows.keys()]) this.#end(topic)
  }

  #begin(topic: string): Window<T> {
    const timer = setTimeout(() => this.#end(topic), windowMs).unref()
    const window = { lines: 0, suppressed: 0, last: undefined, timer }
    this.#windows.set(topic, window)
    return window
  }

  #end(topic: string): void {
    const { suppressed, last, timer } = this.#windows.get(topic)!
    clearTimeout(timer)
    this.#windows.delete(topic)
    if ([...this.#windows.values()].every((window) => window.suppressed === 0)) this.#forget()
    if (suppressed > 0) this.#report(suppressed, topic, formatDuration(windowMs), last!)
  }

  #forget(): void {
    if (unreported.delete(this) && unreported.size === 0) process.off('exit', flushAll)
  }
}

function flushAll(): void {
  for (const limit of [...unreported]) limit.flush()
}
