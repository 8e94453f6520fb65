import {
  Batcher,
  type Events,
  isInstance,
  type RecordedError,
  resultWithin,
  retryUntilRecorded,
  type TracerSlot,
  toRecordedError,
} from '../base/index.js'
import type { RunTransaction } from '../once/index.js'
import type { Epoch } from '../postgres/index.js'
import type { Definition } from './definition.js'
import { RunDrainingError, RunLostError, RunReplacedError, RunTimeoutError } from './errors.js'
import { Run, type RunContext } from './run.js'
import type { ScheduleStore, StartedRun } from './store.js'

export interface RunsOptions {
  readonly store: ScheduleStore
  readonly events: Events
  readonly tracing: TracerSlot
  /** Something of these schedules may wait, and begin now that a run has ended. */
  readonly onWaiting: (keys: readonly string[]) => void
}

/** How a run ends. */
interface Ending {
  readonly run: Run
  /** Returned: another instance is to run it again. */
  readonly state: 'done' | 'failed' | 'cancelled' | 'returned'
  readonly error?: RecordedError
}

const notesAfterMs = 250
/** How long a handler that was told to stop may take for it, when its schedule closes. */
const stopMs = 5_000

/** The runs of this process, each to its recorded end. */
export class Runs {
  /** Why ends cannot be recorded at present. */
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
    const { store } = options
    this.#options = options
    this.#store = store
    this.#context = {
      database: store.database,
      statements: store.transactionStatements,
      expiryMs: store.expiryMs,
      noted: (run) => {
        this.#noted.add(run)
        this.#notesTimer ??= setTimeout(() => void this.#flushNotes(), notesAfterMs)
      },
    }
    this.#endings = new Batcher<Ending, undefined>((endings) => this.#recordAll(endings))
  }

  /** The fences of all that this process knows to run, or to have run without the end being recorded. */
  get fences(): Iterable<number> {
    return this.#running.keys()
  }

  /** Whether a handler of the schedule is still at work here although its run was lost: then nothing more begins here. */
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

  /** Somebody wants it to stop. */
  stop(fence: number): void {
    const run = this.#running.get(fence)
    run?.stop(new RunReplacedError(run.name))
  }

  /** Lets runs come to their ends; after `withinMs` tells them to stop, and in the end gives them up. */
  async drain(isMeant: (run: Run) => boolean, withinMs: number): Promise<void> {
    const runs = [...this.#running.values()].filter(isMeant)
    const all = Promise.all(runs.map((run) => run.over))
    await resultWithin(withinMs, all)
    const left = () => runs.filter((run) => this.#running.get(run.fence) === run)
    for (const run of left()) run.stop(new RunDrainingError(run.name))
    await resultWithin(stopMs, all)
    for (const run of left()) this.#giveUp(run)
    await resultWithin(this.#store.expiryMs, all)
  }

  /** Records nothing any more. */
  close(): void {
    this.#givingUp.abort()
    clearTimeout(this.#notesTimer)
  }

  async #run(run: Run): Promise<void> {
    const { timeoutMs } = run.definition
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => run.timeOut(timeoutMs), timeoutMs)
    try {
      await this.#work(run)
      clearTimeout(timer)
      if (run.stopReason instanceof RunTimeoutError) throw run.stopReason
      await this.#succeeded(run)
    } catch (error) {
      clearTimeout(timer)
      await this.#failed(run, error)
    } finally {
      // Whatever went wrong: a run that is not known here any more is started again by a later look, here or elsewhere.
      run.end()
    }
  }

  #work(run: Run): unknown {
    const { tracer } = this.#options.tracing
    if (!tracer) return run.definition.work(run)
    const { name, tick, attempt, fence } = run
    return tracer.withSpan('schedule run', { name, tick, attempt, fence }, () => run.definition.work(run))
  }

  async #succeeded(run: Run): Promise<void> {
    const transaction = run.sealed()
    if (run.isLost) throw run.stopReason
    if (transaction) return this.#commit(run, transaction)
    if (!run.decide()) return
    await this.#record({ run, state: 'done' })
    this.#emitEnded(run, 'done')
  }

  /** Records the end in the transaction of the handler, and commits both. */
  async #commit(run: Run, transaction: RunTransaction): Promise<void> {
    await this.#flushNotes()
    const { id, at, extra, fence } = runKeyOf(run)
    await transaction.commit(async (tx) => {
      const rows = await this.#store.runIn(tx, 'done', [id, at, extra, fence])
      if (rows.length === 0) throw new RunLostError(run.name, run.tick, run.fence)
    })
    run.decide()
    this.#emitEnded(run, 'done')
    const { overlap, missed } = run.definition
    if (overlap === 'queue' || overlap === 'replace' || missed === 'all') this.#options.onWaiting([run.key])
  }

  async #failed(run: Run, error: unknown): Promise<void> {
    void run.rollback()
    // When it was the answer to the commit that is missing, the record of the failure is refused: the run has ended.
    if (isInstance(error, RunLostError)) run.lose(error)
    if (!run.decide()) return
    if (run.isLost) return this.#emitEnded(run, 'lost')
    const { stopReason } = run
    if (stopReason instanceof RunDrainingError) {
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

  /** A handler that does not stop, while its schedule closes. */
  #giveUp(run: Run): void {
    if (!run.decide()) return
    this.#emitEnded(run, 'returned')
    void run.rollback()
    run.lose()
    void this.#record({ run, state: 'returned' }).then(() => run.end())
  }

  /** Until it is recorded, or refused: nobody else can have the tick before, or somebody has it. */
  async #record(ending: Ending): Promise<void> {
    await this.#flushNotes()
    const { signal } = this.#givingUp
    const record = async () => {
      if (signal.aborted) return
      await this.#endings.add(ending)
      this.failure = undefined
    }
    // After any error: missing rights and wrong settings are also corrected at some time.
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
    const asked = noted.map((run) => ({ ...runKeyOf(run), lines: run.lines.splice(0).slice(-100) }))
    // What people read only: nothing waits for it to succeed.
    await this.#store.run('save_logs', [JSON.stringify(asked)]).catch(() => {})
  }
}

function eventFieldsOf({ name, tick, extra, attempt }: Run) {
  return { name, tick, extra, attempt }
}

function runKeyOf({ key, tick, extra, fence }: Run) {
  return { id: key, at: tick, extra, fence }
}

/** As `schedule_record_ends` reads it. */
function serialize(endings: readonly Ending[]): string {
  return JSON.stringify(endings.map(({ run, state, error }) => ({ ...runKeyOf(run), state, error })))
}
