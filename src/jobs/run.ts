import { formatDuration, type HoldfastError, textOf } from '../base/index.js'
import { RunTransaction, type Transaction, type TransactionStatements } from '../once/index.js'
import type { Database } from '../postgres/index.js'
import type { Claimed } from './claims.js'
import type { AnyDefinition, JobContext } from './definition.js'
import type { ChildOptions } from './enqueue-options.js'
import { type DrainingError, type JobCancelledError, JobLostError, JobTimeoutError } from './errors.js'
import type { JobRef } from './job-ref.js'
import type { JobParent } from './parents.js'

export interface RunGround {
  readonly database: Database
  readonly statements: TransactionStatements
  readonly expiryMs: number
  /** Asks for notes to be written down soon. */
  noted(run: Run): void
  /** What came of jobs. */
  parents(ids: readonly number[]): Promise<JobParent[]>
  /** Enqueues a job by the transaction of its parent. */
  enqueueChild(
    parent: Run,
    definition: AnyDefinition,
    input: unknown,
    options: ChildOptions | undefined,
  ): Promise<JobRef>
}

/** What a handler said since it was last written down. */
export interface Notes {
  progress: number | undefined
  lines: string[]
}

/** One attempt, as its handler sees it. Whatever costs something is made when it is first asked for. */
export class Run implements JobContext {
  readonly startedAt = performance.now()
  readonly #ground: RunGround
  #controller: AbortController | undefined
  #reason: HoldfastError | undefined
  #transaction: RunTransaction | undefined
  #isSealed = false
  notes: Notes | undefined
  /** What has been decided about it is not decided again. */
  isOver = false

  constructor(
    readonly job: Claimed,
    ground: RunGround,
    /** The batch that it runs in: how many of it are not over yet. */
    readonly batch?: { left: number },
  ) {
    this.#ground = ground
  }

  get id(): number {
    return this.job.id
  }

  get kind(): string {
    return this.job.definition.kind
  }

  get attempt(): number {
    return this.job.failed + this.job.crashes + 1
  }

  get fence(): number {
    return this.job.claim.fence
  }

  /** What is told of it. */
  get facts(): { id: number; kind: string; queue: string; attempt: number } {
    const { id, kind, attempt } = this
    return { id, kind, queue: this.job.definition.queue, attempt }
  }

  get signal(): AbortSignal {
    // Notices a deadline that has passed while nothing could run.
    const { life } = this.job.claim
    if (!life.trusted) this.lose(life.loss)
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
    }
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

  // Handlers take their context apart, so these must not need it.
  get enqueue(): JobContext['enqueue'] {
    return (definition, input, options) => this.#ground.enqueueChild(this, definition, input, options)
  }

  readonly parents = (): Promise<JobParent[]> => this.#ground.parents(this.job.ties?.after ?? [])

  readonly progress = (value: number): void => {
    // The column is of four bytes. An object that converts to a number would be written down as an object.
    if (this.isOver || typeof value !== 'number' || !Number.isFinite(Math.fround(value))) return
    this.#note().progress = value
  }

  readonly log = (line: string): void => {
    if (this.isOver) return
    this.#note().lines.push(textOf(line))
  }

  /** The first reason to stop stays; a loss is told over every other. */
  stop(reason: JobCancelledError | JobTimeoutError | JobLostError | DrainingError): void {
    if (this.#reason && !(reason instanceof JobLostError)) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }

  timeOut(): void {
    this.stop(new JobTimeoutError(this.id, formatDuration(this.job.definition.timeoutMs!)))
  }

  lose(cause?: Error): void {
    this.stop(new JobLostError(this.id, this.fence, cause))
  }

  get stopReason(): HoldfastError | undefined {
    return this.#reason
  }

  get isLost(): boolean {
    return this.#reason instanceof JobLostError
  }

  /** Its transaction, if it has begun one; takes no query any more. */
  sealed(): RunTransaction | undefined {
    this.#isSealed = true
    return this.#transaction?.seal() ? this.#transaction : undefined
  }

  #note(): Notes {
    if (this.notes === undefined) {
      this.notes = { progress: undefined, lines: [] }
      this.#ground.noted(this)
    }
    return this.notes
  }
}
