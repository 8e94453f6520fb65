import { LogBuffer } from '../base/index.js'
import { Attempt, type TransactionContext } from '../once/index.js'
import type { Epoch } from '../postgres/index.js'
import type { Definition, ScheduleRun } from './definition.js'
import { RunLostError } from './errors.js'
import type { StartedRun } from './store.js'

export interface RunContext extends TransactionContext {
  /** Schedules a write of the run's log lines. */
  noted(run: Run): void
}

/** Run of a tick, and the object that the handler receives. */
export class Run extends Attempt implements ScheduleRun {
  readonly definition: Definition
  /** Key of the schedule. */
  readonly key: string
  readonly tick: Date
  readonly extra: boolean
  readonly fence: number
  readonly attempt: number
  readonly lateMs: number
  readonly lastSuccess: Date | undefined
  readonly startedAt = performance.now()
  /** Resolves when the handler's result has been recorded or the run has been abandoned. */
  readonly over: Promise<void>
  readonly logBuffer = new LogBuffer()
  /** Job that the run has enqueued. Only a schedule with `job` has one. */
  job: number | undefined
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

  // This is an arrow function, because handlers destructure their argument.
  readonly log = (text: string, data?: unknown): void => {
    if (this.#isDecided) return
    this.logBuffer.add(this.attempt, text, data)
    this.#context.noted(this)
  }

  lossError(cause?: Error): RunLostError {
    return new RunLostError(this.name, this.tick, this.fence, cause)
  }

  /** Marks the run's result as decided. Returns true only for the first call, so only one caller records a result. */
  decide(): boolean {
    const isFirst = !this.#isDecided
    this.#isDecided = true
    return isFirst
  }

  /** Resolves `over`. */
  end(): void {
    this.#end()
  }
}
