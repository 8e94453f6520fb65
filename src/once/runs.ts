import { atMost, ClosedError, pause, whenAborted } from '../base/index.js'
import { answerWithinMs, type Database, DatabaseUnreachableError, type Life, type Presence } from '../postgres/index.js'
import { type Form, isAnswer, writeFailure } from './answer.js'
import { BackgroundRetries } from './background-retries.js'
import { OnceLostError } from './errors.js'
import type { Claim, Ending, Ledger } from './ledger.js'
import { type Asked, claimOf, outcomeOf, Run, type RunContext, type Work } from './run.js'
import type { RunTransaction } from './transaction.js'
import type { Finished, Found, Turn } from './turn.js'

export interface RunsOptions {
  readonly database: Database
  readonly presence: Presence
  readonly ledger: Ledger
  readonly expiryMs: number
}

/** The runs of this process: each is claimed, worked, and ended with its answer, its failure, or its loss. */
export class Runs {
  readonly #options: RunsOptions
  readonly #ledger: Ledger
  readonly #context: RunContext
  readonly #givingUp = new AbortController()
  readonly #retries = new BackgroundRetries(this.#givingUp.signal)
  readonly #inFlight = new Set<Promise<unknown>>()

  constructor(options: RunsOptions) {
    const { database, ledger, expiryMs } = options
    this.#options = options
    this.#ledger = ledger
    this.#context = { database, statements: ledger.sql, expiryMs, givingUp: this.#givingUp.signal }
  }

  async claimAndRun<T>(
    asked: Asked,
    work: Work<T>,
    form: Form<T>,
    turn: Turn,
    giveUp: AbortSignal,
  ): Promise<Found | Finished<T>> {
    const life = await this.#life(giveUp)
    if (!life) return unreachable('This instance cannot reach it at present')
    const claim = claimOf(asked, life.number)
    const seen = await this.#ledger.claim(claim).catch((error) => {
      this.#letGoUnheard(claim)
      if (error instanceof DatabaseUnreachableError) return { state: 'unreachable', error } as const
      throw error
    })
    if (seen.state === 'unsettled') {
      return unreachable('The server has restarted, and somebody may still believe in a run of before')
    }
    if (seen.state !== 'claimed') return seen
    const run = new Run(claim, seen.fence, life, this.#context)
    try {
      if (!life.trusted || giveUp.aborted) {
        await this.#letGo(claim)
        giveUp.throwIfAborted()
        return { state: 'again' }
      }
      turn.tell({ state: 'in-flight', fingerprint: claim.fingerprint })
      // Once it is lost others may run the key, also in this process, whatever its function still does.
      whenAborted(run.delivery.signal, () => turn.end())
      const running = this.#fulfil(run, asked, work, form)
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

  /** Resolves when the runs that are in flight now have ended. They are not told: an answer half-way would be asked for again. */
  async drain(): Promise<void> {
    await Promise.allSettled([...this.#inFlight])
  }

  /** Lets the runs in flight come to their end, for as long as the expiry; then gives them up. */
  async close(): Promise<void> {
    await atMost(this.#options.expiryMs, Promise.allSettled([...this.#inFlight]))
    this.#givingUp.abort(new ClosedError('This instance'))
    await this.#retries.settled()
  }

  async #fulfil<T>(run: Run, asked: Asked, work: Work<T>, form: Form<T>): Promise<T> {
    const { claim } = run
    const { value, written } = await outcomeOf(work, run.delivery, form).catch(async (error) => {
      // Whatever goes wrong with the record of it, the key must not stay in flight.
      await this.#fail(run, asked, error).catch(() => this.#letGo(claim))
      throw error
    })
    const ending: Ending = { ...claim, state: 'done', written }
    const transaction = run.sealed()
    if (transaction && form.keepsEffect?.(value) !== false) {
      await this.#commit(run, transaction, ending)
      return value
    }
    if (transaction) await atMost(answerWithinMs, transaction.rollback())
    if (!(await this.#record(ending))) throw run.lossError()
    return value
  }

  async #fail(run: Run, asked: Asked, error: unknown): Promise<void> {
    const { claim } = run
    await atMost(answerWithinMs, run.rollback())
    if (!asked.recordsFailures || !isAnswer(error)) return this.#letGo(claim)
    // What the caller is to hear is the failure itself, whatever becomes of the record.
    await this.#record({ ...claim, state: 'failed', written: writeFailure(error) }).catch(() => {})
  }

  /** Records an answer, also when it takes some tries. False: another run has taken over, and it was not recorded. */
  async #record(ending: Ending): Promise<boolean> {
    const recorded = await this.#retries.within(this.#patienceMs, () => this.#ledger.finish(ending))
    if (recorded !== undefined) return recorded
    throw new DatabaseUnreachableError(
      `The answer of "${ending.key}" could not be recorded yet; it is still being tried`,
    )
  }

  /** Commits effect and answer. When nobody says whether that happened, finds out. */
  async #commit(run: Run, transaction: RunTransaction, ending: Ending): Promise<void> {
    const committing = transaction
      .commit(async (tx) => {
        if (!(await this.#ledger.finishIn(tx, ending))) throw run.lossError()
      })
      .then(
        () => 'committed' as const,
        (error: unknown) => ({ error }),
      )
    const ended = (await atMost(answerWithinMs, committing)) ?? { error: unanswered() }
    if (ended === 'committed') return
    if (ended.error instanceof OnceLostError) throw ended.error
    const end = await this.#retries.within(this.#patienceMs, () => this.#ledger.settle(run.claim))
    if (end === 'recorded') return
    if (end === 'rolled back') throw ended.error
    if (end === 'taken over') throw run.lossError(ended.error as Error)
    throw new DatabaseUnreachableError(
      `The connection was lost while "${ending.key}" committed: either its effect and its answer are both there, or neither`,
      ended.error,
    )
  }

  /** Lets a key go. Waits until it is free, unless that takes long: then it goes on by itself. */
  async #letGo(claim: Claim): Promise<void> {
    await this.#retries.within(answerWithinMs, () => this.#ledger.release(claim)).catch(() => {})
  }

  /** The claim may have been granted without our having heard of it, even some time after we gave the connection up. */
  #letGoUnheard(claim: Claim): void {
    const release = () => this.#ledger.release(claim)
    const later = () => pause(answerWithinMs, this.#givingUp.signal)
    void this.#retries.within(0, () => release().then(later).then(release)).catch(() => {})
  }

  get #patienceMs(): number {
    return Math.max(answerWithinMs, this.#options.expiryMs)
  }

  /** The present life, waiting a little for one that is beginning. */
  async #life(giveUp: AbortSignal): Promise<Life | undefined> {
    const { presence } = this.#options
    if (presence.life) return presence.life
    const tooLate = new Error('too late')
    const soon = new AbortController()
    const forget = whenAborted(giveUp, (reason) => soon.abort(reason))
    const timer = setTimeout(() => soon.abort(tooLate), answerWithinMs)
    try {
      return await presence.whenLiving(soon.signal)
    } catch (error) {
      if (error === tooLate) return undefined
      throw error
    } finally {
      clearTimeout(timer)
      forget()
    }
  }
}

function unreachable(message: string): Found {
  return { state: 'unreachable', error: new DatabaseUnreachableError(message) }
}

function unanswered(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('The commit was not answered')
}
