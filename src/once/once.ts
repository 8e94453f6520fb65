import {
  abortSignal,
  backoffMs,
  Calls,
  checkName,
  type Duration,
  describe,
  duration,
  type Events,
  firstToAbort,
  isInstance,
  longestTimerMs,
  oneOf,
  pause,
  readOptions,
  type Tracing,
  UsageError,
} from '../base/index.js'
import { type CallerTransaction, type Database, executorOf, type Presence } from '../postgres/index.js'
import { type Form, json, readFailure } from './answer.js'
import { FingerprintMismatchError, OnceLostError, RecordedFailureError } from './errors.js'
import { runInTransaction } from './in-transaction.js'
import { Ledger } from './ledger.js'
import type { Asked, Delivery, Work } from './run.js'
import { Runs } from './runs.js'
import { type Finished, type Found, type Try, Turn } from './turn.js'

export interface OnceInTransactionOptions {
  /** How long a duplicate waits for the answer of the run in flight. Default 0: not at all. */
  wait?: Duration | undefined
  /** How long the answer is kept, counted from when it was recorded. From 1 s; default `7d`. */
  retain?: Duration | undefined
  /** By what the payload is known, such as its hash. The same key with another one is a `FingerprintMismatchError`. */
  fingerprint?: string | undefined
  /**
   * What becomes of the key when the function throws. `free` (the default): the next call runs it again. `record`: the
   * failure is the answer, and duplicates get it as a `RecordedFailureError`.
   */
  failures?: 'free' | 'record' | undefined
}

export interface OnceOptions extends OnceInTransactionOptions {
  /** Gives up the wait for another's answer when it aborts. */
  signal?: AbortSignal | undefined
}

export type Answer<T> = { readonly status: 'done' | 'replayed'; readonly value: T } | { readonly status: 'in-progress' }

export interface OnceSettings {
  readonly database: Database
  readonly presence: Presence
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  readonly events: Events
  readonly tracing: Tracing
}

const longestRetain = 3_650 * 86_400_000

export const waitRule = duration(0, longestTimerMs)
export const retainRule = duration(1_000, longestRetain)

const transactionRules = {
  wait: waitRule,
  retain: retainRule,
  fingerprint: {
    expected: 'a string of 1 to 500 characters without zero bytes',
    read: (given: unknown) => {
      const fits = typeof given === 'string' && given !== '' && given.length <= 500
      return fits && !given.includes('\0') && given.isWellFormed() ? given : undefined
    },
  },
  failures: oneOf('free', 'record'),
}
const rules = { ...transactionRules, signal: abortSignal }

/** The longest pause between two looks at a key that somebody else runs. */
const mostPauseMs = 250
/** A decision of somebody else takes milliseconds; only a transaction that runs the key keeps it for longer. */
const busyLooks = 4

/**
 * Each key has its effect once, and a duplicate gets the first answer: webhooks, idempotent requests, messages that
 * arrive twice.
 *
 * @example
 * const answer = await holdfast.once.run(`stripe:${event.id}`, async ({ tx }) => {
 *   await tx.query('update invoice set paid = true where id = $1', [id])
 *   return { paid: id }
 * }, { wait: '2s', retain: '30d' })
 */
export class Once {
  readonly #settings: OnceSettings
  readonly #ledger: Ledger
  readonly #runs: Runs
  /** The keys that this process looks at or runs at this moment. */
  readonly #here = new Map<string, Turn>()
  readonly #calls = new Calls()

  /** @internal */
  constructor(settings: OnceSettings) {
    this.#settings = settings
    this.#ledger = new Ledger({ ...settings, instanceId: settings.presence.instanceId })
    this.#runs = new Runs({ ...settings, ledger: this.#ledger })
  }

  /**
   * Runs `work` unless the key has its answer already, and records what it returns (anything that JSON can carry) as the
   * answer. What `work` writes by its `tx` commits together with the record: one effect, whatever dies. Effects elsewhere
   * may happen again when the process dies before the record. A duplicate gets the recorded answer, or `in-progress` when
   * the run in flight has none within `wait`.
   *
   * @example
   * const answer = await holdfast.once.run(`order:${id}`, async ({ tx }) => {
   *   await tx.query('insert into shipment (order_id) values ($1)', [id])
   *   return { shipped: id }
   * })
   * if (answer.status === 'in-progress') return retryLater()
   */
  run<T>(key: string, work: (delivery: Delivery) => Promise<T> | T, options?: OnceOptions): Promise<Answer<T>> {
    return this.perform('once.run', key, work, options, json as Form<T>)
  }

  /**
   * The same in an open transaction of the caller, with which the answer is recorded, or not. Until
   * it ends, duplicates elsewhere find the key in progress. A failing `work` is rolled back to where it began, and the
   * transaction can go on.
   *
   * @example
   * await client.query('begin')
   * const answer = await holdfast.once.inTransaction(client, `message:${id}`, async ({ tx }) => book(tx))
   * await client.query('commit')
   */
  async inTransaction<T>(
    client: CallerTransaction,
    key: string,
    work: (delivery: Delivery) => Promise<T> | T,
    options?: OnceInTransactionOptions,
  ): Promise<Answer<T>> {
    const asked = this.#read('once.inTransaction', key, work, options, transactionRules)
    const caller = executorOf(client)
    const form = json as Form<T>
    return this.#watched('once.inTransaction', asked.key, work, (watched) =>
      this.#look(asked, form, (turn) => runInTransaction(caller, this.#ledger, asked, watched, form, turn)),
    )
  }

  /**
   * Lets a key be run again, as an operator may want after a recorded failure. False when it had no answer; a run in
   * flight is left alone.
   *
   * @example
   * await holdfast.once.forget(`stripe:${eventId}`)
   */
  async forget(key: string): Promise<boolean> {
    checkName(key, 'key')
    return this.#calls.write(() => this.#ledger.forget(key))
  }

  /** @internal `run`, for answers of another form. */
  async perform<T>(
    where: string,
    key: string,
    work: Work<T>,
    options: OnceOptions | undefined,
    form: Form<T>,
  ): Promise<Answer<T>> {
    const asked = this.#read(where, key, work, options, rules)
    return this.#watched(where, asked.key, work, (watched) =>
      this.#look(asked, form, (turn, giveUp) => this.#runs.claimAndRun(asked, watched, form, turn, giveUp)),
    )
  }

  /** @internal Removes one piece of what has expired. */
  sweep(): Promise<number> {
    return this.#ledger.sweep()
  }

  /** @internal */
  drain(): Promise<void> {
    return this.#runs.drain()
  }

  /** @internal Resolves when what was asked for before is written. */
  written(): Promise<void> {
    return this.#calls.written()
  }

  /** @internal Runs in flight may come to their end, for as long as the expiry. */
  async close(): Promise<void> {
    this.#calls.close()
    await this.#runs.close()
  }

  #read(
    where: string,
    key: string,
    work: unknown,
    given: OnceOptions | undefined,
    known: Partial<typeof rules>,
  ): Asked {
    if (typeof work !== 'function') {
      throw new UsageError(
        `Expected the function that ${where} runs, got ${describe(work)}`,
        'The function comes before the options: once.run(key, work, { wait }).',
      )
    }
    const options = readOptions(where, given, known as typeof rules)
    return {
      key: checkName(key, 'key'),
      until: performance.now() + (options.wait ?? 0),
      retainMs: Math.ceil(options.retain ?? 7 * 86_400_000),
      fingerprint: options.fingerprint ?? null,
      recordsFailures: options.failures === 'record',
      signal: options.signal,
    }
  }

  /** Tells who listens what comes of a key, and shows a tracer the run of its function, if there is one. */
  async #watched<T>(
    where: string,
    key: string,
    work: Work<T>,
    perform: (work: Work<T>) => Promise<Answer<T>>,
  ): Promise<Answer<T>> {
    const { events, tracing } = this.#settings
    let begunAt: number | undefined
    const durationMs = () => performance.now() - begunAt!
    try {
      const watched: Work<T> = (delivery) => {
        begunAt = performance.now()
        const { tracer } = tracing
        const { fence } = delivery
        return tracer ? tracer.around('once run', { key, fence }, () => work(delivery)) : work(delivery)
      }
      const answer = await this.#calls.run(
        where,
        () => key,
        () => perform(watched),
      )
      if (answer.status === 'done') events.to('once.done')?.({ key, durationMs: durationMs() })
      else events.to(`once.${answer.status}`)?.({ key })
      return answer
    } catch (error) {
      if (begunAt === undefined && isInstance(error, RecordedFailureError)) events.to('once.replayed')?.({ key })
      else if (begunAt === undefined && isInstance(error, FingerprintMismatchError))
        events.to('once.mismatched')?.({ key })
      else if (begunAt !== undefined && isInstance(error, OnceLostError)) {
        events.to('once.lost')?.({ key, durationMs: durationMs(), reason: error })
      } else if (begunAt !== undefined) events.to('once.failed')?.({ key, durationMs: durationMs(), error })
      throw error
    }
  }

  /** Looks at the key, again and again, until there is an answer or no more time. */
  async #look<T>(asked: Asked, form: Form<T>, tryIt: Try<T>): Promise<Answer<T>> {
    const { key, until, signal } = asked
    const giveUp = firstToAbort(this.#calls.closing, signal)
    try {
      for (let attempt = 0, busy = 0; ; attempt++) {
        giveUp.signal.throwIfAborted()
        // Of several callers in this process one asks; the others hear what it hears.
        const first = this.#here.get(key)
        const ahead = first?.isOver ? undefined : first
        const found = ahead ? await ahead.found : await this.#takeTurn(key, tryIt, giveUp.signal)
        if (found.state === 'finished') return { status: 'done', value: found.value }
        if (found.state === 'again') continue
        const leftMs = until - performance.now()
        if (found.state === 'busy' && leftMs <= 0 && busy < busyLooks) {
          await pause(2 ** busy++, giveUp.signal)
          continue
        }
        if (found.state === 'unreachable' && leftMs <= 0) throw found.error
        if (found.state === 'done' || found.state === 'failed' || found.state === 'in-flight') {
          checkFingerprint(asked, found.fingerprint)
        }
        if (found.state === 'done') return { status: 'replayed', value: form.read(found.written) }
        if (found.state === 'failed') throw new RecordedFailureError(key, readFailure(found.written))
        if (leftMs <= 0) return { status: 'in-progress' }
        const lookAgain = pause(Math.min(leftMs, backoffMs(attempt, 20, mostPauseMs)), giveUp.signal)
        await (ahead ? Promise.race([lookAgain, ahead.over]) : lookAgain)
      }
    } finally {
      giveUp.forget()
    }
  }

  async #takeTurn<T>(key: string, tryIt: Try<T>, giveUp: AbortSignal): Promise<Found | Finished<T>> {
    const turn = new Turn()
    this.#here.set(key, turn)
    try {
      const found = await tryIt(turn, giveUp)
      if (found.state !== 'finished') turn.tell(found)
      return found
    } finally {
      if (this.#here.get(key) === turn) this.#here.delete(key)
      turn.end()
    }
  }
}

/** Those who do not say what they bring take what is there. */
function checkFingerprint({ key, fingerprint }: Asked, known: string | null): void {
  if (fingerprint !== null && known !== null && fingerprint !== known) throw new FingerprintMismatchError(key)
}
