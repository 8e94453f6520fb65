import {
  Batcher,
  DrainingError,
  type Events,
  isInstance,
  type MiddlewareStack,
  type RecordedError,
  resultWithin,
  retryUntilRecorded,
  type TracerSlot,
  toRecordedError,
} from '../base/index.js'
import type { RunTransaction, TransactionContext } from '../once/index.js'
import type { Epoch } from '../postgres/index.js'
import type { Definition } from './definition.js'
import { RunLostError, RunReplacedError, RunTimeoutError } from './errors.js'
import { Run, type RunContext } from './run.js'
import type { ScheduleStore, StartedRun } from './store.js'

export interface RunsOptions {
  readonly store: ScheduleStore
  readonly attempts: TransactionContext
  readonly events: Events
  readonly tracing: TracerSlot
  readonly middleware: MiddlewareStack
  /** Called after a run has ended, with the keys of the schedules that may have a waiting run. */
  readonly onWaiting: (keys: readonly string[]) => void
}

interface Ending {
  readonly run: Run
  /** `returned` means that another instance should run the tick again. */
  readonly state: 'done' | 'failed' | 'cancelled' | 'returned'
  readonly error?: RecordedError
}

const notesAfterMs = 250
/** Time within which a handler must return after its signal has aborted because its schedule is closing. */
const stopMs = 5_000

/** Runs the handlers in this process and records their results. */
export class Runs {
  /** Error that currently prevents this process from recording results. */
  failure: { readonly error: unknown } | undefined
  readonly #options: RunsOptions
  readonly #store: ScheduleStore
  readonly #context: RunContext
  readonly #running = new Map<number, Run>()
  readonly #endings
  readonly #noted = new Set<Run>()
  readonly #givingUp = new AbortController()
  #notesTimer: NodeJS.Timeout | undefined

  constructor(options: RunsOptions) {
    const { store, attempts } = options
    this.#options = options
    this.#store = store
    this.#context = {
      ...attempts,
      noted: (run) => {
        this.#noted.add(run)
        this.#notesTimer ??= setTimeout(() => void this.#flushNotes(), notesAfterMs)
      },
    }
    this.#endings = new Batcher<Ending, undefined>((endings) => this.#recordAll(endings))
  }

  /** Fencing tokens of the runs whose results have not been recorded yet. */
  get fences(): Iterable<number> {
    return this.#running.keys()
  }

  /**
   * Whether the handler of one of this schedule's lost runs is still working in this process. No other run starts in
   * this process until the handler ends.
   */
  hasLostRun(key: string): boolean {
    for (const run of this.#running.values())
      if (run.key === key && run.isLost && run.definition.overlap !== 'allow') return true
    return false
  }

  countOf(definition: Definition): number {
    return [...this.#running.values()].filter((run) => run.definition === definition).length
  }

  start(definition: Definition, started: StartedRun, epoch: Epoch): void {
    const run = new Run(definition, started, epoch, this.#context)
    this.#running.set(run.fence, run)
    const forget = epoch.onLoss((reason) => run.lose(reason))
    void run.over.then(() => {
      forget()
      this.#running.delete(run.fence)
      if (run.isLost) this.#options.onWaiting([run.key])
    })
    this.#options.events.emitter('schedule.started')?.({ ...eventFieldsOf(run), lateMs: run.lateMs })
    this.#run(run).catch((error) => this.#emitFailed(run, error))
  }

  /** Aborts a run's signal because a later tick replaces the run. */
  stop(fence: number): void {
    const run = this.#running.get(fence)
    run?.stop(new RunReplacedError(run.name))
  }

  /**
   * Waits until the runs have ended. After `withinMs`, aborts the remaining runs' signals. Abandons runs that
   * still do not end.
   */
  async drain(isMeant: (run: Run) => boolean, withinMs: number): Promise<void> {
    const runs = [...this.#running.values()].filter(isMeant)
    const all = Promise.all(runs.map((run) => run.over))
    await resultWithin(withinMs, all)
    const left = () => runs.filter((run) => this.#running.get(run.fence) === run)
    for (const run of left()) run.stop(new DrainingError('schedule', run.name))
    await resultWithin(stopMs, all)
    for (const run of left()) this.#giveUp(run)
    await resultWithin(this.#store.expiryMs, all)
  }

  /** Stops recording results. */
  close(): void {
    this.#givingUp.abort()
    clearTimeout(this.#notesTimer)
  }

  async #run(run: Run): Promise<void> {
    const { name, timeoutMs } = run.definition
    const timeOut = () => run.stop(new RunTimeoutError(name, timeoutMs!))
    const timer = timeoutMs === undefined ? undefined : setTimeout(timeOut, timeoutMs)
    try {
      await this.#work(run)
      clearTimeout(timer)
      if (run.stopReason instanceof RunTimeoutError) throw run.stopReason
      await this.#succeeded(run)
    } catch (error) {
      clearTimeout(timer)
      await this.#failed(run, error)
    } finally {
      // Removes the run from this process's list. If the result was not recorded, a later poll returns the tick to the
      // state `waiting`.
      run.end()
    }
  }

  #work(run: Run): unknown {
    const wrap = this.#options.middleware.run
    if (!wrap) return this.#callHandler(run)
    const { name, tick, attempt, signal } = run
    return wrap({ type: 'schedule', name, tick, attempt, signal }, () => this.#callHandler(run))
  }

  async #callHandler(run: Run): Promise<unknown> {
    const { tracer } = this.#options.tracing
    const { name, tick, attempt, fence, definition } = run
    const work = async () => definition.work(run)
    const result = await (tracer ? tracer.withSpan('schedule run', { name, tick, attempt, fence }, work) : work())
    if (definition.job) run.job = (result as { readonly id: number }).id
    return result
  }

  async #succeeded(run: Run): Promise<void> {
    const transaction = run.sealed()
    if (run.isLost) throw run.stopReason
    if (transaction) return this.#commit(run, transaction)
    if (!run.decide()) return
    await this.#record({ run, state: 'done' })
    this.#emitEnded(run, 'done')
  }

  /** Records the result in the handler's transaction, and commits the transaction. */
  async #commit(run: Run, transaction: RunTransaction): Promise<void> {
    await this.#flushNotes()
    const { id, at, extra, fence } = runKeyOf(run)
    await transaction.commit(async (tx) => {
      // The tick is text, because some libraries change how their driver converts dates.
      const rows = await this.#store.runIn(tx, 'done', [id, at.toISOString(), extra, fence, run.job ?? null])
      if (rows.length === 0) throw new RunLostError(run.name, run.tick, run.fence)
    })
    run.decide()
    this.#emitEnded(run, 'done')
    const { overlap, missed } = run.definition
    if (overlap === 'queue' || overlap === 'replace' || missed === 'all') this.#options.onWaiting([run.key])
  }

  async #failed(run: Run, error: unknown): Promise<void> {
    void run.rollback()
    // If the commit succeeded and only its response was lost, the database rejects this failure, because the run has
    // already ended.
    if (isInstance(error, RunLostError)) run.lose(error)
    if (!run.decide()) return
    if (run.isLost) return this.#emitEnded(run, 'lost')
    const { stopReason } = run
    if (stopReason instanceof DrainingError) {
      this.#emitEnded(run, 'returned')
      return this.#record({ run, state: 'returned' })
    }
    if (stopReason instanceof RunReplacedError) {
      this.#emitEnded(run, 'cancelled')
      return this.#record({ run, state: 'cancelled', error: toRecordedError(stopReason) })
    }
    await this.#record({ run, state: 'failed', error: toRecordedError(stopReason ?? error) })
    this.#emitFailed(run, stopReason ?? error)
  }

  #emitFailed(run: Run, error: unknown): void {
    const durationMs = performance.now() - run.startedAt
    this.#options.events.emitter('schedule.failed')?.({ ...eventFieldsOf(run), durationMs, error })
  }

  #emitEnded(run: Run, state: 'done' | 'cancelled' | 'returned' | 'lost'): void {
    const durationMs = performance.now() - run.startedAt
    this.#options.events.emitter('schedule.ended')?.({ ...eventFieldsOf(run), state, durationMs })
  }

  /** Abandons a run whose handler ignores its signal while the schedule is closing. */
  #giveUp(run: Run): void {
    if (!run.decide()) return
    this.#emitEnded(run, 'returned')
    void run.rollback()
    run.lose()
    void this.#record({ run, state: 'returned' }).then(() => run.end())
  }

  /**
   * Retries until the database has recorded or rejected the result. Until then, no other instance can start the tick.
   */
  async #record(ending: Ending): Promise<void> {
    await this.#flushNotes()
    const { signal } = this.#givingUp
    const record = async () => {
      if (signal.aborted) return
      await this.#endings.add(ending)
      this.failure = undefined
    }
    // Retries after any error, because an operator may grant missing privileges or correct wrong settings.
    await retryUntilRecorded(signal, record, (error) => {
      this.failure = { error }
      return 5_000
    })
  }

  async #recordAll(endings: readonly Ending[]): Promise<undefined[]> {
    const { waits } = await this.#store.call('end', [serialize(endings)])
    if (waits !== null) this.#options.onWaiting(waits)
    return endings.map(() => undefined)
  }

  async #flushNotes(): Promise<void> {
    clearTimeout(this.#notesTimer)
    this.#notesTimer = undefined
    const noted = [...this.#noted]
    this.#noted.clear()
    if (noted.length === 0) return
    const logs = noted.map((run) => ({ ...runKeyOf(run), lines: run.logBuffer.take() }))
    // Errors are ignored, because log lines are stored on a best-effort basis.
    await this.#store.run('save_logs', [JSON.stringify(logs)]).catch(() => {})
  }
}

function eventFieldsOf({ name, tick, extra, attempt }: Run) {
  return { name, tick, extra, attempt }
}

function runKeyOf({ key, tick, extra, fence }: Run) {
  return { id: key, at: tick, extra, fence }
}

/** Serializes results for `schedule_record_ends`. */
function serialize(endings: readonly Ending[]): string {
  return JSON.stringify(endings.map(({ run, state, error }) => ({ ...runKeyOf(run), state, error })))
}
