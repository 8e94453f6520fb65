import {
  type Events,
  formatDuration,
  type JobMeta,
  type JobProgress,
  LogBuffer,
  type TracerSlot,
} from '../base/index.js'
import { Attempt, type TransactionContext } from '../once/index.js'
import type { ClaimedJob } from './claims.js'
import type { JobContext, JobDefinition } from './definition.js'
import type { ChildOptions } from './enqueue-options.js'
import { JobLostError, JobTimeoutError } from './errors.js'
import type { Intake } from './intake.js'
import type { Notes, NoteTaker } from './notes.js'
import { type JobParent, parentsOf } from './parents.js'
import { timeoutOf } from './policy.js'
import { readProgress } from './progress.js'
import { Steps } from './steps.js'
import type { JobStore } from './store.js'
import type { JobThread } from './thread-pool.js'

export interface RunContext extends TransactionContext {
  readonly store: JobStore
  readonly intake: Intake
  readonly notes: NoteTaker
  readonly events: Events
  readonly tracing: TracerSlot
}

/** Attempt to run a job, and the context that the handler receives. Expensive parts are created on first use. */
export class Run extends Attempt implements JobContext {
  readonly startedAt = performance.now()
  readonly #context: RunContext
  notes: Notes | undefined
  /** Created for the first log line, because most jobs log nothing. */
  logBuffer: LogBuffer | undefined
  #steps: Steps | undefined
  /** The attempt's thread, if its definition has threads. */
  thread: JobThread | undefined
  /** Whether the attempt's outcome has been decided. An outcome is decided only once. */
  isOver = false

  constructor(
    readonly job: ClaimedJob,
    context: RunContext,
    /** The attempt's batch, with the number of attempts in the batch that have not ended yet. */
    readonly batch?: { left: number },
  ) {
    super(job.claim.epoch, context)
    this.#context = context
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

  get meta(): JobMeta {
    return this.job.meta
  }

  get fence(): number {
    return this.job.claim.fence
  }

  get eventFields(): { id: number; kind: string; queue: string; attempt: number } {
    const { id, kind, attempt } = this
    return { id, kind, queue: this.job.definition.queue, attempt }
  }

  readInput(): unknown {
    const { input, inputText } = this.job
    return inputText === undefined ? input : JSON.parse(inputText)
  }

  // The following members must work without `this`, because handlers destructure their context.
  get enqueue(): JobContext['enqueue'] {
    return this.enqueueIn(this)
  }

  enqueueIn(scope: Pick<Run, 'tx' | 'job'>): JobContext['enqueue'] {
    return (definition: JobDefinition, input?: unknown, options?: ChildOptions) =>
      this.#context.intake.child(scope, definition, input, options)
  }

  get step(): JobContext['step'] {
    return ((name, work) => this.#stepsOf().step(name, work)) as JobContext['step']
  }

  get cursor(): JobContext['cursor'] {
    return ((name, initial) => this.#stepsOf().cursor(name, initial)) as JobContext['cursor']
  }

  get sleep(): JobContext['sleep'] {
    return (time, options) => this.#stepsOf().sleep(time, options)
  }

  get event(): JobContext['event'] {
    return ((name, options) => this.#stepsOf().event(name, options)) as JobContext['event']
  }

  readonly parents = (): Promise<JobParent[]> => parentsOf(this.#context.store, this.job.links?.after ?? [])

  readonly progress = (value: JobProgress): void => {
    const progress = this.isOver ? undefined : readProgress(value)
    if (progress !== undefined) this.#note().progress = progress
  }

  readonly log = (text: string, data?: unknown): void => {
    if (this.isOver) return
    this.#note()
    this.logBuffer ??= new LogBuffer()
    this.logBuffer.add(this.attempt, text, data)
  }

  timeOut(): void {
    this.stop(new JobTimeoutError(this.id, formatDuration(timeoutOf(this.job)!)))
  }

  lossError(cause?: Error): JobLostError {
    return new JobLostError(this.id, this.fence, cause)
  }

  #stepsOf(): Steps {
    const { store, events, tracing } = this.#context
    this.#steps ??= new Steps(this, { store, events, tracing, transactions: this.#context })
    return this.#steps
  }

  /** Rolls back the transactions of steps that are still running. Undefined if the attempt has no steps. */
  rollBackSteps(): Promise<void> | undefined {
    return this.#steps?.rollBack()
  }

  #note(): Notes {
    if (this.notes === undefined) {
      this.notes = { progress: undefined }
      this.#context.notes.soon(this)
    }
    return this.notes
  }
}
