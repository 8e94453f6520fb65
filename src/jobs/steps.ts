import {
  checkName,
  type Duration,
  describe,
  duration,
  type Events,
  type Instant,
  isInstance,
  isRetryable,
  messageOf,
  parseDuration,
  parseInstant,
  readOptions,
  retryUntilRecorded,
  type TracerSlot,
  toJson,
  UsageError,
} from '../base/index.js'
import { RunTransaction, type TransactionContext } from '../once/index.js'
import type { Executor } from '../postgres/index.js'
import type { ClaimedJob } from './claims.js'
import type { EventOptions, JobContext, JobCursor, SleepOptions, StepContext } from './definition.js'
import { DuplicateStepError, JobLostError, JobSuspendedError, NonRetryableError, StepLimitError } from './errors.js'
import type { JobStore } from './store.js'

/** Maximum number of steps of a job, including cursors, sleeps and events. */
export const maxSteps = 1_000
/** Maximum total size of the results of a job's steps, as JSON. */
const maxStepBytes = 1_000_000
const maxWaitMs = 3_650 * 86_400_000

const stepName = { expected: 'a name', read: (given: unknown) => checkName(given, 'step') }
const sleepRules = { step: stepName }
const eventRules = { within: duration(0, maxWaitMs), step: stepName }

type StepKind = 'step' | 'cursor' | 'sleep' | 'event'

interface StepRow {
  readonly name: string
  readonly kind: StepKind
  readonly has_ended: boolean
  readonly result: string | null
}

interface WaitRow {
  readonly state: 'ended' | 'open' | 'lost'
  readonly result: string | null
  readonly left_ms: number | null
}

/** The parts of an attempt that its steps need. */
export interface SteppedAttempt {
  readonly id: number
  readonly attempt: number
  readonly fence: number
  readonly job: ClaimedJob
  readonly signal: AbortSignal
  readonly isOver: boolean
  readonly eventFields: { id: number; kind: string; queue: string; attempt: number }
  stop(reason: JobSuspendedError): void
  lose(): void
  lossError(): JobLostError
  /** Enqueues a child job in the transaction of a step. */
  enqueueIn(scope: { readonly tx: StepContext['tx']; readonly job: ClaimedJob }): JobContext['enqueue']
}

export interface StepsContext {
  readonly store: JobStore
  readonly transactions: TransactionContext
  readonly events: Events
  readonly tracing: TracerSlot
}

/** Steps of one attempt. Created with the first step, so that a job without steps costs nothing. */
export class Steps {
  readonly #run: SteppedAttempt
  readonly #context: StepsContext
  /** Names that this attempt has used. */
  readonly #used = new Set<string>()
  #known: Promise<Map<string, StepRow>> | undefined
  #count = 0
  #bytes = 0
  /** Steps whose functions are running. */
  readonly #open = new Set<StepScope>()
  /** Errors of steps that may have been recorded, although the response was lost. */
  readonly #unsure = new Map<string, unknown>()
  #isWaiting = false

  constructor(run: SteppedAttempt, context: StepsContext) {
    this.#run = run
    this.#context = context
  }

  /** Rolls back the transactions of the steps that are running. Otherwise, the next attempt could wait for their row locks. */
  async rollBack(): Promise<void> {
    const open = [...this.#open]
    this.#open.clear()
    await Promise.all(open.map((scope) => scope.sealed()?.rollback()))
  }

  async step(name: string, work: (step: StepContext) => unknown): Promise<unknown> {
    checkWork(work, 'job.step')
    const known = await this.#use(name, 'step')
    return fromJson(known ? known.result : await this.#perform(name, 'step', work))
  }

  async cursor(name: string, initial: unknown): Promise<JobCursor<unknown>> {
    const known = await this.#use(name, 'cursor')
    let value = known ? fromJson(known.result) : initial
    let size = sizeOf(known?.result ?? null)
    let isBusy = false
    const advance = async (work: (step: StepContext) => unknown): Promise<unknown> => {
      checkWork(work, 'cursor.advance')
      if (isBusy) throw new UsageError(`Expected one call of advance at a time for the cursor "${name}", got another`)
      // The value may have been recorded. Then the same work would be done again.
      if (this.#unsure.has(name)) throw this.#unsure.get(name)
      isBusy = true
      // The new value replaces the cursor's old value, so the old value does not count towards the size limit.
      this.#bytes -= size
      try {
        this.#check()
        const json = await this.#perform(name, 'cursor', work)
        size = sizeOf(json)
        value = fromJson(json)
        return value
      } catch (error) {
        this.#bytes += size
        throw error
      } finally {
        isBusy = false
      }
    }
    return {
      get value() {
        return value
      },
      advance,
    }
  }

  async sleep(time: Duration | Instant, options: SleepOptions | undefined): Promise<void> {
    const { step = 'sleep' } = readOptions('job.sleep', options, sleepRules)
    const ms = parseDuration(time)
    const until = ms === undefined ? parseInstant(time) : undefined
    if ((ms === undefined && until === undefined) || (ms !== undefined && ms > maxWaitMs)) {
      throw new UsageError(`Expected job.sleep to get a duration of at most 3650 days or a date, got ${describe(time)}`)
    }
    await this.#alone('sleep', async () => {
      const known = await this.#use(step, 'sleep')
      if (!known?.has_ended) await this.#wait(step, 'sleep', null, ms ?? null, until?.getTime() ?? null)
    })
  }

  async event(name: string, options: EventOptions): Promise<unknown> {
    checkName(name, 'event')
    const { within, step = name } = readOptions('job.event', options, eventRules)
    if (within === undefined) {
      throw new UsageError('Expected job.event to get the option within, got none', "For example: { within: '7d' }.")
    }
    return this.#alone('event', async () => {
      const known = await this.#use(step, 'event')
      return fromJson(known?.has_ended ? known.result : await this.#wait(step, 'event', name, within, null))
    })
  }

  /** A suspended job waits for one time or event. A second wait would not be seen. */
  async #alone<T>(kind: 'sleep' | 'event', wait: () => Promise<T>): Promise<T> {
    if (this.#isWaiting) {
      throw new UsageError(
        `Expected job.${kind} to be called after the last wait of the job has ended, but both run at the same time`,
        'Await each job.sleep and job.event before the next one.',
      )
    }
    this.#isWaiting = true
    try {
      return await wait()
    } finally {
      this.#isWaiting = false
    }
  }

  /** Marks the name as used and returns the step's record, if there is one. */
  async #use(name: string, kind: StepKind): Promise<StepRow | undefined> {
    checkName(name, 'step')
    this.#check()
    if (this.#used.has(name)) throw new DuplicateStepError(this.#run.id, name)
    this.#used.add(name)
    this.#known ??= this.#load()
    const known = (await this.#known).get(name)
    this.#check()
    if (known && known.kind !== kind) {
      throw new UsageError(
        `Expected the ${kind} "${name}" to have another name, because the job has a ${known.kind} with this name`,
        'Give a step a new name when you change what it does.',
      )
    }
    if (!known && ++this.#count > maxSteps) {
      throw new StepLimitError(`Expected at most ${maxSteps} steps per job, but "${name}" would be one more`)
    }
    return known
  }

  /** Throws if the attempt must not start another step. */
  #check(): void {
    this.#run.signal.throwIfAborted()
    if (this.#run.isOver) throw endedError()
  }

  async #load(): Promise<Map<string, StepRow>> {
    const rows = await this.#context.store.run<StepRow>('steps', [this.#run.id])
    this.#count += rows.length
    for (const { result } of rows) this.#bytes += sizeOf(result)
    return new Map(rows.map((row) => [row.name, row]))
  }

  /** Runs the function of a step in a span and records its result. Returns the result as JSON. */
  #perform(name: string, kind: 'step' | 'cursor', work: (step: StepContext) => unknown): Promise<string | null> {
    const perform = () => this.#performAndRecord(name, kind, work)
    const { tracer } = this.#context.tracing
    if (!tracer) return perform()
    const { id, attempt, kind: job } = this.#run.eventFields
    return tracer.withSpan('job step', { step: name, kind: job, id, attempt }, perform)
  }

  async #performAndRecord(
    name: string,
    kind: 'step' | 'cursor',
    work: (step: StepContext) => unknown,
  ): Promise<string | null> {
    const { store, events } = this.#context
    const run = this.#run
    const startedAt = performance.now()
    const scope = new StepScope(run, this.#context.transactions)
    this.#open.add(scope)
    let json: string | null
    try {
      const result = await work(scope)
      if (!this.#open.has(scope)) throw endedError()
      json = this.#toJson(name, result)
    } catch (error) {
      await scope.sealed()?.rollback()
      throw error
    } finally {
      this.#open.delete(scope)
    }
    const valuesNow = () => [run.id, run.fence, name, kind, run.attempt, performance.now() - startedAt, json]
    const transaction = scope.sealed()
    try {
      if (transaction) {
        await transaction.commit(async (tx: Executor) => {
          const [row] = await store.runIn<{ recorded: boolean }>(tx, 'record_step', valuesNow())
          if (!row!.recorded) throw run.lossError()
        })
      } else {
        const record = () => store.run<{ recorded: boolean }>('record_step', valuesNow())
        const rows = await this.#retry(record)
        if (!rows[0]!.recorded) throw run.lossError()
      }
    } catch (error) {
      this.#bytes -= sizeOf(json)
      if (isInstance(error, JobLostError)) run.lose()
      else if (isRetryable(error)) this.#unsure.set(name, error)
      throw error
    }
    events.emitter('job.step-recorded')?.({ ...run.eventFields, step: name, durationMs: performance.now() - startedAt })
    return json
  }

  /**
   * Ends the wait, or suspends the job. To suspend the job, throws the error that is also the abort reason of the
   * handler's signal.
   */
  async #wait(
    step: string,
    kind: 'sleep' | 'event',
    event: string | null,
    ms: number | null,
    until: number | null,
  ): Promise<string | null> {
    const run = this.#run
    const values = [run.id, run.fence, step, kind, run.attempt, event, ms, until]
    const [row] = await this.#retry(() => this.#context.store.run<WaitRow>('wait', values))
    const { state, result, left_ms: leftMs } = row!
    if (state === 'ended') return result
    if (state === 'lost') run.lose()
    else run.stop(new JobSuspendedError(run.id, step, leftMs!))
    run.signal.throwIfAborted()
    throw run.lossError()
  }

  /** Retries while the database is unreachable, because a failed attempt would repeat the step. */
  async #retry<Row>(work: () => Promise<Row[]>): Promise<Row[]> {
    const { signal } = this.#run
    const rows = await retryUntilRecorded(signal, work, (error) => {
      if (signal.aborted || !isRetryable(error)) throw error
      return 2_000
    })
    return rows!
  }

  #toJson(name: string, value: unknown): string | null {
    let json: string | undefined
    try {
      json = toJson(value, 'a result')
    } catch (error) {
      // The error is not retryable, because another attempt would repeat the work and return the same value.
      throw new NonRetryableError(messageOf(error), { cause: error })
    }
    if (json === undefined) return null
    const bytes = Buffer.byteLength(json)
    if (this.#bytes + bytes > maxStepBytes) {
      throw new StepLimitError(
        `Expected the results of a job's steps to have at most ${maxStepBytes} bytes of JSON, got ${this.#bytes + bytes} with "${name}"`,
      )
    }
    this.#bytes += bytes
    return json
  }
}

/** Context of one step. Each step has its own transaction. */
class StepScope implements StepContext {
  readonly #run: SteppedAttempt
  readonly #context: TransactionContext
  #transaction: RunTransaction | undefined
  #isSealed = false

  constructor(run: SteppedAttempt, context: TransactionContext) {
    this.#run = run
    this.#context = context
  }

  get job(): ClaimedJob {
    return this.#run.job
  }

  get signal(): AbortSignal {
    return this.#run.signal
  }

  get tx(): StepContext['tx'] {
    if (this.#transaction === undefined) {
      this.#transaction = new RunTransaction(this.#context, this.signal)
      if (this.#isSealed) this.#transaction.seal()
    }
    return this.#transaction.tx as StepContext['tx']
  }

  get enqueue(): StepContext['enqueue'] {
    return this.#run.enqueueIn(this)
  }

  /** Returns the transaction if the step has used it. After this call, the transaction accepts no more queries. */
  sealed(): RunTransaction | undefined {
    this.#isSealed = true
    return this.#transaction?.seal() ? this.#transaction : undefined
  }
}

function checkWork(work: unknown, where: string): void {
  if (typeof work !== 'function') throw new UsageError(`Expected ${where} to get a function, got ${describe(work)}`)
}

function endedError(): UsageError {
  return new UsageError('The attempt of this step has ended', 'Await each step before the handler returns.')
}

function sizeOf(json: string | null): number {
  return json === null ? 0 : Buffer.byteLength(json)
}

function fromJson(json: string | null): unknown {
  return json === null ? undefined : JSON.parse(json)
}
