import { ClosedError, isInstance, isRetryable, pause, resultWithin, whenAborted } from '../base/index.js'
import { DatabaseUnreachableError, type Epoch, type Presence, responseTimeoutMs } from '../postgres/index.js'
import { type AnswerCodec, encodeFailure, isRecordable } from './answer.js'
import { BackgroundRetries } from './background-retries.js'
import { OnceLostError } from './errors.js'
import type { AttemptResult, FinishedRun, KeyAttempt } from './key-attempt.js'
import { newClaim, type ParsedOptions, Run, type RunContext, runWork, type Work } from './run.js'
import type { Claim, OnceStore, RunId, RunResult } from './store.js'
import type { RunTransaction, TransactionContext } from './transaction.js'

export interface RunsOptions {
  readonly attempts: TransactionContext
  readonly presence: Presence
  readonly store: OnceStore
  readonly expiryMs: number
}

/** Claims, runs and records this process's deliveries. */
export class Runs {
  readonly #options: RunsOptions
  readonly #store: OnceStore
  readonly #context: RunContext
  readonly #givingUp = new AbortController()
  readonly #retries = new BackgroundRetries(this.#givingUp.signal)
  readonly #inFlight = new Set<Promise<unknown>>()

  constructor(options: RunsOptions) {
    const { store, attempts } = options
    this.#options = options
    this.#store = store
    this.#context = { ...attempts, givingUp: this.#givingUp.signal }
  }

  async claimAndRun<T>(
    options: ParsedOptions,
    work: Work<T>,
    codec: AnswerCodec<T>,
    attempt: KeyAttempt,
    giveUp: AbortSignal,
  ): Promise<AttemptResult | FinishedRun<T>> {
    const epoch = this.#options.presence.epoch ?? (await this.#whenPresent(giveUp))
    if (!epoch) return unreachableResult('This instance has no connection to the database')
    const claim = newClaim(options, epoch.number)
    const claimed = await this.#store.claim(claim).catch((error) => {
      this.#releaseUnconfirmed(claim)
      if (error instanceof DatabaseUnreachableError) return { state: 'unreachable', error } as const
      throw error
    })
    if (claimed.state === 'in-grace') {
      return unreachableResult('The server has restarted, and runs from before the restart may not have ended yet')
    }
    if (claimed.state !== 'claimed') return claimed
    // After a loss, other callers may run the key, even in this process and even if the lost run's function has not ended.
    const run = new Run(claim, claimed.fence, epoch, this.#context, () => attempt.end())
    try {
      if (!epoch.trusted || giveUp.aborted) {
        await this.#release(claim)
        giveUp.throwIfAborted()
        return { state: 'retry' }
      }
      attempt.report({ state: 'in-flight', fingerprint: claim.fingerprint })
      const running = this.#runAndRecord(run, options, work, codec)
      this.#inFlight.add(running)
      try {
        return { state: 'finished', value: await running }
      } finally {
        this.#inFlight.delete(running)
      }
    } finally {
      run.end()
    }
  }

  /**
   * Resolves when the current runs have ended. Does not stop the runs, because another process would only repeat a
   * stopped run.
   */
  async drain(): Promise<void> {
    await Promise.allSettled([...this.#inFlight])
  }

  /** Waits for the runs in flight until the expiry, and then abandons them. */
  async close(): Promise<void> {
    await resultWithin(this.#options.expiryMs, Promise.allSettled([...this.#inFlight]))
    this.#givingUp.abort(new ClosedError('This instance'))
    await this.#retries.settled()
  }

  async #runAndRecord<T>(run: Run, options: ParsedOptions, work: Work<T>, codec: AnswerCodec<T>): Promise<T> {
    const { claim } = run
    const { value, written } = await runWork(work, run.delivery, codec).catch(async (error) => {
      // If the failure cannot be recorded, the key must not remain in flight.
      await this.#onFailure(run, options, error).catch(() => this.#release(claim))
      throw error
    })
    const result: RunResult = { ...claim, state: 'done', written }
    const transaction = run.sealed()
    if (transaction && codec.keepsEffect?.(value) !== false) {
      await this.#commit(run, transaction, result)
      return value
    }
    if (transaction) await resultWithin(responseTimeoutMs, transaction.rollback())
    if (!(await this.#recordAnswer(result))) throw run.lossError()
    return value
  }

  async #onFailure(run: Run, options: ParsedOptions, error: unknown): Promise<void> {
    const { claim } = run
    await resultWithin(responseTimeoutMs, run.rollback())
    if (!options.recordsFailures || !isRecordable(error)) return this.#release(claim)
    // The caller receives the failure even if recording it fails.
    await this.#recordAnswer({ ...claim, state: 'failed', written: encodeFailure(error) }).catch(() => {})
  }

  /**
   * Records a result, and retries on failure. Returns false if another run has taken over and nothing was recorded.
   */
  async #recordAnswer(result: RunResult): Promise<boolean> {
    const recorded = await this.#retries.within(this.#maxRetryMs, () =>
      this.#store.finish(result).catch(async (error) => {
        // A result that can never be recorded must not keep the key in flight.
        if (!isRetryable(error)) await this.#release(result)
        throw error
      }),
    )
    if (recorded !== undefined) return recorded
    throw new DatabaseUnreachableError(
      `The result for "${result.key}" could not be recorded yet. Retries continue in the background`,
    )
  }

  /** Commits the effect and the result. If the response to the commit is lost, reads the result from the database. */
  async #commit(run: Run, transaction: RunTransaction, result: RunResult): Promise<void> {
    const committing = transaction
      .commitChecked(async (tx, began) => {
        const end = await this.#store.finishIn(tx, result, began)
        if (end === 'taken over') throw run.lossError()
        return end === 'recorded'
      })
      .then(
        () => 'committed' as const,
        (error: unknown) => ({ error }),
      )
    const ended = (await resultWithin(responseTimeoutMs, committing)) ?? { error: commitUnansweredError() }
    if (ended === 'committed') return
    if (isInstance(ended.error, OnceLostError)) throw ended.error
    const end = await this.#retries.within(this.#maxRetryMs, () => this.#store.resolveUnknownEnd(run.claim))
    if (end === 'recorded') return
    if (end === 'rolled back') throw ended.error
    if (end === 'taken over') throw run.lossError(ended.error as Error)
    throw new DatabaseUnreachableError(
      `The connection was lost while "${result.key}" was committing: either both its effect and its result have been committed, or neither`,
      ended.error,
    )
  }

  /** Frees a key. Waits for a short time, and then continues the retries in the background. */
  async #release(run: RunId): Promise<void> {
    await this.#retries.within(responseTimeoutMs, () => this.#store.release(run)).catch(() => {})
  }

  /**
   * Frees a claim whose response was lost. Releases the claim twice, because the server may execute it after the first
   * release.
   */
  #releaseUnconfirmed(claim: Claim): void {
    const release = () => this.#store.release(claim)
    const later = () => pause(responseTimeoutMs, this.#givingUp.signal)
    void this.#retries.within(0, () => release().then(later).then(release)).catch(() => {})
  }

  get #maxRetryMs(): number {
    return Math.max(responseTimeoutMs, this.#options.expiryMs)
  }

  /** Waits for a short time, because a new epoch may be starting. */
  async #whenPresent(giveUp: AbortSignal): Promise<Epoch | undefined> {
    const { presence } = this.#options
    const tooLate = new Error('too late')
    const soon = new AbortController()
    const forget = whenAborted(giveUp, (reason) => soon.abort(reason))
    const timer = setTimeout(() => soon.abort(tooLate), responseTimeoutMs)
    try {
      return await presence.whenPresent(soon.signal)
    } catch (error) {
      if (error === tooLate) return undefined
      throw error
    } finally {
      clearTimeout(timer)
      forget()
    }
  }
}

function unreachableResult(message: string): AttemptResult {
  return { state: 'unreachable', error: new DatabaseUnreachableError(message) }
}

function commitUnansweredError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('The server did not respond to the commit')
}
