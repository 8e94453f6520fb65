import { backoffMs, type Events, isInstance, messageOf } from '../base/index.js'
import type { RunTransaction } from '../once/index.js'
import { arrayOf, type Executor } from '../postgres/index.js'
import { type Claims, placesOf } from './claims.js'
import { type Ending, type Endings, endingFor, type Recorded, unstamped } from './endings.js'
import {
  DrainingError,
  InvalidInputError,
  JobCancelledError,
  JobLostError,
  JobTimeoutError,
  NonRetryableError,
  recordOf,
} from './errors.js'
import type { Ledger } from './ledger.js'
import type { LooseEnds } from './loose-ends.js'
import type { NoteTaker } from './notes.js'
import { Outcome } from './outcome.js'
import { writePayload } from './payload.js'
import type { Rounds } from './rounds.js'
import type { Run } from './run.js'

export interface OutcomesOptions {
  readonly ledger: Ledger
  readonly rounds: Rounds
  readonly endings: Endings
  readonly claims: Claims
  readonly looseEnds: LooseEnds
  readonly events: Events
  readonly notes: NoteTaker
  /** The attempt is over, and what is given records that. */
  readonly over: (run: Run, record: () => void) => void
}

/**
 * What comes of an attempt: from what its handler returned or threw, and why it was told to stop, to the end that is
 * recorded, in the handler's transaction if it has one.
 */
export class Outcomes {
  readonly #options: OutcomesOptions

  constructor(options: OutcomesOptions) {
    this.#options = options
  }

  /** Its handler has returned. Throws what the attempt has failed of all the same. */
  succeeded(run: Run, value: unknown): Promise<void> | undefined {
    if (run.isOver) return undefined
    const { rounds, endings, over } = this.#options
    const { job, stopReason } = run
    if (stopReason instanceof JobTimeoutError) throw stopReason
    if (Outcome.is(value)) {
      const error = value.reason ? { name: 'Outcome', message: value.reason } : undefined
      const { id, seq, claim } = job
      const ending = { id, seq, claim, state: value.state, error, delayMs: value.delayMs, failed: false }
      const transaction = run.sealed()
      if (transaction) return this.#commit(run, transaction, ending)
      if (value.state === 'retried') rounds.soon(value.delayMs)
      this.#tellStopped(run, value.state)
      over(run, () => endings.end(ending))
      return undefined
    }
    let result: string | undefined
    try {
      result = writePayload(value, 'a result')
    } catch (error) {
      // Another attempt would do its work again, for the same answer.
      throw new NonRetryableError(messageOf(error), { cause: error })
    }
    const transaction = run.sealed()
    if (transaction) return this.#commit(run, transaction, result)
    this.#tellDone(run)
    over(run, () => endings.done(job, result))
    return undefined
  }

  /** Its handler has thrown, or could not be called, or does not stop. */
  failed(run: Run, error: unknown): void {
    if (run.isOver) return
    const { rounds, endings, events, over } = this.#options
    const { job, stopReason } = run
    const { definition, id, seq, claim } = job
    void run.rollback()
    const base = { id, seq, claim, error: recordOf(error), delayMs: 0, failed: false }
    if (run.isLost) {
      this.#tellStopped(run, 'lost')
      over(run, () => endings.drop(job))
      return
    }
    if (stopReason instanceof JobCancelledError) {
      const cancelled = { ...base, state: 'cancelled', error: recordOf(stopReason) } as const
      this.#tellStopped(run, 'cancelled')
      over(run, () => endings.end(cancelled))
      return
    }
    if (stopReason instanceof DrainingError) {
      this.#returned(run)
      return
    }
    const wouldFailAgain = isInstance(error, NonRetryableError) || isInstance(error, InvalidInputError)
    const isFinal = wouldFailAgain || job.failed + 1 >= definition.attempts
    const state = isFinal ? 'buried' : 'retried'
    const delayMs = isFinal ? 0 : backoffMs(job.failed, definition.backoffMs, definition.longestMs)
    over(run, () => endings.end({ ...base, state, delayMs, failed: true }))
    if (!isFinal) rounds.soon(delayMs)
    const durationMs = performance.now() - run.startedAt
    events.to('job.failed')?.({ ...run.facts, durationMs, state, error })
  }

  /** Its handler does not stop, while the worker closes. */
  abandoned(run: Run): void {
    if (run.isOver) return
    void run.rollback()
    run.lose()
    this.#returned(run)
  }

  /** Records the end in the transaction of the handler, and commits both. */
  async #commit(run: Run, transaction: RunTransaction, end: Ending | string | undefined): Promise<void> {
    const { id, claim } = run.job
    const { ledger, claims, rounds, endings, looseEnds, notes, over } = this.#options
    let loose: string | null = null
    const record = async (tx: Executor) => {
      const rows =
        typeof end === 'object'
          ? await ledger.runIn<Recorded>(tx, 'end', [
              JSON.stringify([endingFor(claims, end)]),
              unstamped(claims, [end]),
              '{}',
            ])
          : await ledger.runIn<Recorded>(tx, 'done', [
              arrayOf([id]),
              arrayOf([claim.fence]),
              placesOf(claims, [run.job]),
              end === undefined ? null : `[[${end}]]`,
              '{}',
            ])
      const { recorded } = rows[0]!
      loose = rows[0]!.loose
      if (recorded !== null && recorded.length === 0) throw new JobLostError(id, claim.fence)
    }
    await notes.whenWritten(run)
    try {
      await transaction.commit(record)
      looseEnds.found(loose)
    } catch (error) {
      looseEnds.unsure()
      // When it was the answer to the commit that is missing, the record of the failure is refused: the job has ended.
      if (error instanceof JobLostError) endings.refused++
      if (error instanceof JobLostError) run.lose()
      throw error
    }
    if (typeof end === 'object' && end.state === 'retried') rounds.soon(end.delayMs)
    if (typeof end === 'object') this.#tellStopped(run, end.state as 'retried' | 'cancelled' | 'discarded')
    else this.#tellDone(run)
    over(run, () => endings.recorded([run.job], []))
  }

  #returned(run: Run): void {
    const { endings, over } = this.#options
    this.#tellStopped(run, 'returned')
    over(run, () => endings.giveBack(run.job))
  }

  #tellDone(run: Run): void {
    this.#options.events.to('job.done')?.({ ...run.facts, durationMs: performance.now() - run.startedAt })
  }

  #tellStopped(run: Run, state: 'retried' | 'cancelled' | 'discarded' | 'returned' | 'lost'): void {
    this.#options.events.to('job.stopped')?.({ ...run.facts, durationMs: performance.now() - run.startedAt, state })
  }
}
