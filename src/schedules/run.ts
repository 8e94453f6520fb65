import { textOf } from '../base/index.js'
import { Attempt, type AttemptContext } from '../once/index.js'
import type { Epoch } from '../postgres/index.js'
import type { Definition, ScheduleRun } from './definition.js'
import { RunLostError, RunTimeoutError } from './errors.js'
import type { StartedRun } from './store.js'

export interface RunContext extends AttemptContext {
  /** Asks for its lines to be written down soon. */
  noted(run: Run): void
}

/** One run, as its handler sees it. */
export class Run extends Attempt implements ScheduleRun {
  readonly definition: Definition
  /** The key of the schedule. */
  readonly key: string
  readonly tick: Date
  readonly extra: boolean
  readonly fence: number
  readonly attempt: number
  readonly lateMs: number
  readonly lastSuccess: Date | undefined
  readonly startedAt = performance.now()
  /** Resolves when its handler has come to its end and that is recorded, or it was given up. */
  readonly over: Promise<void>
  /** What its handler logged since it was last written down. */
  lines: string[] = []
  readonly #context: RunContext
  #isDecided = false
  #end = () => {}

  constructor(definition: Definition, started: StartedRun, epoch: Epoch, context: RunContext) {
    super(epoch, context)
    const [key, tickMs, extra, fence, attempt, late, lastSuccessMs] = started
    this.definition = definition
    this.#context = context
    this.key = key
    this.tick = new Date(tickMs)
    this.extra = extra
    this.fence = fence
    this.attempt = attempt
    this.lateMs = late
    this.lastSuccess = lastSuccessMs === null ? undefined : new Date(lastSuccessMs)
    this.over = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  get name(): string {
    return this.definition.name
  }

  // Handlers take their context apart, so this must not need it.
  readonly log = (line: string): void => {
    if (this.#isDecided) return
    this.lines.push(textOf(line))
    this.#context.noted(this)
  }

  timeOut(timeoutMs: number): void {
    this.stop(new RunTimeoutError(this.name, timeoutMs))
  }

  lossError(cause?: Error): RunLostError {
    return new RunLostError(this.name, this.tick, this.fence, cause)
  }

  /** What becomes of it is decided once: true for whoever comes first. */
  decide(): boolean {
    const isFirst = !this.#isDecided
    this.#isDecided = true
    return isFirst
  }

  /** Nothing remains to be done about it. */
  end(): void {
    this.#end()
  }
}
