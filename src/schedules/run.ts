import { type HoldfastError, textOf } from '../base/index.js'
import { RunTransaction, type Transaction, type TransactionStatements } from '../once/index.js'
import type { Database, Life } from '../postgres/index.js'
import type { Definition, ScheduleRun } from './definition.js'
import { type RunDrainingError, RunLostError, type RunReplacedError, RunTimeoutError } from './errors.js'
import type { Begun } from './ledger.js'

export interface RunGround {
  readonly database: Database
  readonly statements: TransactionStatements
  readonly expiryMs: number
  /** Asks for its lines to be written down soon. */
  noted(run: Run): void
}

/** One run, as its handler sees it. */
export class Run implements ScheduleRun {
  readonly definition: Definition
  /** The key of the schedule. */
  readonly key: string
  readonly tick: Date
  readonly extra: boolean
  readonly fence: number
  readonly attempt: number
  readonly late: number
  readonly lastSuccess: Date | undefined
  readonly beganAt = performance.now()
  /** Resolves when its handler has come to its end and that is recorded, or it was given up. */
  readonly over: Promise<void>
  /** What its handler logged since it was last written down. */
  lines: string[] = []
  readonly #life: Life
  readonly #ground: RunGround
  readonly #controller = new AbortController()
  #reason: HoldfastError | undefined
  #transaction: RunTransaction | undefined
  #isSealed = false
  #isDecided = false
  #end = () => {}

  constructor(definition: Definition, begun: Begun, life: Life, ground: RunGround) {
    const [key, tickMs, extra, fence, attempt, late, lastSuccessMs] = begun
    this.definition = definition
    this.#life = life
    this.#ground = ground
    this.key = key
    this.tick = new Date(tickMs)
    this.extra = extra
    this.fence = fence
    this.attempt = attempt
    this.late = late
    this.lastSuccess = lastSuccessMs === null ? undefined : new Date(lastSuccessMs)
    this.over = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  get name(): string {
    return this.definition.name
  }

  get signal(): AbortSignal {
    // Notices a deadline that has passed while nothing could run.
    if (!this.#life.trusted) this.lose(this.#life.loss)
    return this.#controller.signal
  }

  get tx(): Transaction {
    if (this.#transaction === undefined) {
      const { database, statements, expiryMs } = this.#ground
      this.#transaction = new RunTransaction(database, statements, expiryMs, this.signal)
      // Nobody would end one that was begun now.
      if (this.#isSealed) this.#transaction.seal()
    }
    return this.#transaction.tx
  }

  // Handlers take their context apart, so this must not need it.
  readonly log = (line: string): void => {
    if (this.#isDecided) return
    this.lines.push(textOf(line))
    this.#ground.noted(this)
  }

  /** The first reason to stop stays; a loss is told over every other. */
  stop(reason: RunLostError | RunTimeoutError | RunReplacedError | RunDrainingError): void {
    if (this.#reason && !(reason instanceof RunLostError)) return
    this.#reason = reason
    this.#controller.abort(reason)
  }

  timeOut(timeoutMs: number): void {
    this.stop(new RunTimeoutError(this.name, timeoutMs))
  }

  lose(cause?: Error): void {
    this.stop(new RunLostError(this.name, this.tick, this.fence, cause))
  }

  get stopReason(): HoldfastError | undefined {
    return this.#reason
  }

  get isLost(): boolean {
    return this.#reason instanceof RunLostError
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

  /** Its transaction, if it has begun one; takes no query any more. */
  sealed(): RunTransaction | undefined {
    this.#isSealed = true
    return this.#transaction?.seal() ? this.#transaction : undefined
  }
}
