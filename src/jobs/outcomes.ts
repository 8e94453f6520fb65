import { backoffMs, isInstance, messageOf } from '../base/index.js'
import type { RunTransaction } from '../once/index.js'
import { arrayLiteral, type Executor } from '../postgres/index.js'
import type { JobsContext } from './context.js'
import { type Ending, type Endings, endingFor, type RecordResult } from './endings.js'
import {
  DrainingError,
  InvalidInputError,
  JobCancelledError,
  JobLostError,
  JobTimeoutError,
  NonRetryableError,
  toRecordedError,
} from './errors.js'
import type { NoteTaker } from './notes.js'
import { JobOutcome } from './outcome.js'
import { writePayload } from './payload.js'
import type { Run } from './run.js'

interface OutcomesOptions {
  readonly endings: Endings
  readonly notes: NoteTaker
  /** Frees the attempt's slot, and then calls `record`. */
  readonly finish: (run: Run, record: () => void) => void
}

/**
 * Determines an attempt's outcome from the handler's return value or error and from the signal's abort reason. Records
 * the outcome in the handler's transaction if there is one.
 */
export class Outcomes {
  readonly #context: JobsContext
  readonly #options: OutcomesOptions

  constructor(context: JobsContext, options: OutcomesOptions) {
    this.#context = context
    this.#options = options
  }

  /** Handles a handler's return. Throws if the attempt fails although the handler has returned. */
  succeeded(run: Run, value: unknown): Promise<void> | undefined {
    if (run.isOver) return undefined
    const { maintenance } = this.#context
    const { endings, finish } = this.#options
    const { job, stopReason } = run
    if (stopReason instanceof JobTimeoutError) throw stopReason
    if (JobOutcome.is(value)) {
      const error = value.reason ? { name: 'JobOutcome', message: value.reason } : undefined
      const { id, claim } = job
      const ending = { id, claim, state: value.state, error, delayMs: value.delayMs, failed: false }
      const transaction = run.sealed()
      if (transaction) return this.#commit(run, transaction, ending)
      if (value.state === 'retried') maintenance.runWithin(value.delayMs)
      this.#emitEnded(run, value.state)
      finish(run, () => endings.end(ending))
      return undefined
    }
    let result: string | undefined
    try {
      result = writePayload(value, 'a result')
    } catch (error) {
      // The error is not retryable, because another attempt would repeat the work and return the same value.
      throw new NonRetryableError(messageOf(error), { cause: error })
    }
    const transaction = run.sealed()
    if (transaction) return this.#commit(run, transaction, result)
    this.#emitDone(run)
    finish(run, () => endings.done(job, result))
    return undefined
  }

  /** Handles a handler's error. Also handles the failure if the handler was not called or does not stop. */
  failed(run: Run, error: unknown): void {
    if (run.isOver) return
    const { maintenance, events } = this.#context
    const { endings, finish } = this.#options
    const { job, stopReason } = run
    const { definition, id, claim } = job
    void run.rollback()
    const base = { id, claim, error: toRecordedError(error), delayMs: 0, failed: false }
    if (run.isLost) {
      this.#emitEnded(run, 'lost')
      finish(run, () => endings.drop(job))
      return
    }
    if (stopReason instanceof JobCancelledError) {
      const cancelled = { ...base, state: 'cancelled', error: toRecordedError(stopReason) } as const
      this.#emitEnded(run, 'cancelled')
      finish(run, () => endings.end(cancelled))
      return
    }
    if (stopReason instanceof DrainingError) {
      this.#returned(run)
      return
    }
    const wouldFailAgain = isInstance(error, NonRetryableError) || isInstance(error, InvalidInputError)
    const isFinal = wouldFailAgain || job.failed + 1 >= definition.attempts
    const state = isFinal ? 'buried' : 'retried'
    const delayMs = isFinal ? 0 : backoffMs(job.failed, definition.backoffMs, definition.maxBackoffMs)
    finish(run, () => endings.end({ ...base, state, delayMs, failed: true }))
    if (!isFinal) maintenance.runWithin(delayMs)
    const durationMs = performance.now() - run.startedAt
    events.emitter('job.failed')?.({ ...run.eventFields, durationMs, state, error })
  }

  /** Gives a job back to its queue if the handler does not stop while the worker is closing. */
  abandoned(run: Run): void {
    if (run.isOver) return
    void run.rollback()
    run.lose()
    this.#returned(run)
  }

  /** Records the outcome in the handler's transaction and commits. */
  async #commit(run: Run, transaction: RunTransaction, end: Ending | string | undefined): Promise<void> {
    const { id, claim } = run.job
    const { store, maintenance, followUps } = this.#context
    const { endings, notes, finish } = this.#options
    let followUpNumbers: string | null = null
    const record = async (tx: Executor) => {
      const rows =
        typeof end === 'object'
          ? await store.runIn<RecordResult>(tx, 'end', [JSON.stringify([endingFor(end)]), '{}'])
          : await store.runIn<RecordResult>(tx, 'done', [
              arrayLiteral([id]),
              arrayLiteral([claim.fence]),
              end === undefined ? null : `[[${end}]]`,
              '{}',
            ])
      const { recorded } = rows[0]!
      followUpNumbers = rows[0]!.follow_ups
      if (recorded !== null && recorded.length === 0) throw new JobLostError(id, claim.fence)
    }
    await notes.whenWritten(run)
    try {
      await transaction.commit(record)
      followUps.add(followUpNumbers)
    } catch (error) {
      followUps.recheck()
      // If the commit succeeded and only its response was lost, the database rejects the failure, because the job has
      // already ended.
      if (error instanceof JobLostError) endings.refusedEnds++
      if (error instanceof JobLostError) run.lose()
      throw error
    }
    if (typeof end === 'object' && end.state === 'retried') maintenance.runWithin(end.delayMs)
    if (typeof end === 'object') this.#emitEnded(run, end.state as 'retried' | 'cancelled' | 'discarded')
    else this.#emitDone(run)
    finish(run, () => endings.recorded([run.job], []))
  }

  #returned(run: Run): void {
    const { endings, finish } = this.#options
    this.#emitEnded(run, 'returned')
    finish(run, () => endings.giveBack(run.job))
  }

  #emitDone(run: Run): void {
    this.#context.events.emitter('job.done')?.({ ...run.eventFields, durationMs: performance.now() - run.startedAt })
  }

  #emitEnded(run: Run, state: 'retried' | 'cancelled' | 'discarded' | 'returned' | 'lost'): void {
    this.#context.events.emitter('job.ended')?.({
      ...run.eventFields,
      durationMs: performance.now() - run.startedAt,
      state,
    })
  }
}
