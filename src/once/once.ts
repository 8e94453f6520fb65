import {
  abortSignal,
  backoffMs,
  Calls,
  checkContentHasValue,
  checkName,
  combineSignals,
  type Duration,
  defaultTimes,
  duration,
  type Events,
  isInstance,
  type MiddlewareStack,
  maxTimerMs,
  type OptionsAndWork,
  oneOf,
  orAborted,
  pause,
  readOptions,
  readWork,
  type TracerSlot,
} from '../base/index.js'
import { type CallerTransaction, type Database, executorOf, type Presence } from '../postgres/index.js'
import { type AnswerCodec, decodeFailure, jsonCodec } from './answer.js'
import { FingerprintMismatchError, OnceLostError, RecordedFailureError } from './errors.js'
import { runInTransaction } from './in-transaction.js'
import { type Attempt, type AttemptResult, type FinishedRun, KeyAttempt } from './key-attempt.js'
import type { Delivery, ParsedOptions, Work } from './run.js'
import { Runs } from './runs.js'
import { OnceStore } from './store.js'
import type { TransactionContext } from './transaction.js'

export interface OnceInTransactionOptions {
  /** Maximum time for which a duplicate waits for the in-flight run's result. Default 0 (no waiting). */
  wait?: Duration | undefined
  /** Retention time of the recorded result. At least 1 s. Default `7d`. */
  retain?: Duration | undefined
  /**
   * Fingerprint that identifies the payload, for example a hash. If the same key is used with a different fingerprint,
   * the call throws a `FingerprintMismatchError`.
   */
  fingerprint?: string | undefined
  /**
   * Behavior if the function throws an error. With `free` (the default), the next call runs the function again. With
   * `record`, the failure is recorded as the result, and duplicates get a `RecordedFailureError`.
   */
  failures?: 'free' | 'record' | undefined
}

export interface OnceOptions extends OnceInTransactionOptions {
  /** Abort this signal to stop the wait for another run's result. */
  signal?: AbortSignal | undefined
}

export type OnceAnswer<T> =
  | { readonly status: 'done' | 'replayed'; readonly value: T }
  | { readonly status: 'in-progress' }

export interface OnceSettings {
  readonly database: Database
  readonly presence: Presence
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  readonly attempts: TransactionContext
  readonly events: Events
  readonly tracing: TracerSlot
  readonly middleware: MiddlewareStack
}

const maxRetainMs = 3_650 * 86_400_000

export const waitRule = duration(0, maxTimerMs)
export const retainRule = duration(1_000, maxRetainMs)

const transactionRules = {
  wait: waitRule,
  retain: retainRule,
  fingerprint: {
    expected: 'a string of 1 to 500 characters without zero bytes',
    read: (given: unknown) => {
      const fits = typeof given === 'string' && given !== '' && given.length <= 500
      if (!fits || given.includes('\0') || !given.isWellFormed()) return undefined
      checkContentHasValue(given, 'fingerprint')
      return given
    },
  },
  failures: oneOf('free', 'record'),
}
const rules = { ...transactionRules, signal: abortSignal }

/** Maximum pause between two polls of a key that another run holds. */
const maxPauseMs = 250
/**
 * Maximum number of polls of a busy key after the wait has ended. A claim holds the lock on its key for only a few
 * milliseconds, whereas a caller's transaction may hold it longer.
 */
const maxBusyPolls = 4

/**
 * Runs work once per idempotency key, and replays the first result for each duplicate. Useful for webhooks, idempotent
 * requests and redelivered messages.
 *
 * @example
 * const answer = await holdfast.once.run(`stripe:${event.id}`, { wait: '2s', retain: '30d' }, async ({ tx }) => {
 *   await tx.query('update invoice set paid = true where id = $1', [id])
 *   return { paid: id }
 * })
 */
export class Once {
  readonly #settings: OnceSettings
  readonly #store: OnceStore
  readonly #runs: Runs
  /** Keys that this process is polling or running. */
  readonly #attempts = new Map<string, KeyAttempt>()
  readonly #calls = new Calls()

  /** @internal */
  constructor(settings: OnceSettings) {
    this.#settings = settings
    this.#store = new OnceStore({ ...settings, instanceId: settings.presence.instanceId })
    this.#runs = new Runs({ ...settings, store: this.#store })
  }

  /**
   * Runs `work` unless the key already has a result, and records the returned value (any JSON value) as the result.
   * Writes through `tx` commit together with the result, exactly once. Effects elsewhere may happen again if the
   * process dies before the result is recorded. A duplicate gets the recorded result, or `in-progress` if the run in
   * flight has no result within `wait`.
   *
   * @example
   * const answer = await holdfast.once.run(`order:${id}`, async ({ tx }) => {
   *   await tx.query('insert into shipment (order_id) values ($1)', [id])
   *   return { shipped: id }
   * })
   * if (answer.status === 'in-progress') return retryLater()
   */
  run<T>(key: string, work: (delivery: Delivery) => Promise<T> | T): Promise<OnceAnswer<T>>
  /** Runs `work` unless the key already has a result, with options. */
  run<T>(key: string, options: OnceOptions, work: (delivery: Delivery) => Promise<T> | T): Promise<OnceAnswer<T>>
  /** @internal */
  async run<T>(
    key: string,
    ...rest: OptionsAndWork<OnceOptions, (delivery: Delivery) => Promise<T> | T>
  ): Promise<OnceAnswer<T>> {
    const [options, work] = readWork('once.run', rest)
    return this.runWith('once.run', key, work, options, jsonCodec as AnswerCodec<T>)
  }

  /**
   * Runs `work` in the caller's open transaction. The result commits or rolls back with that transaction. Until the
   * transaction ends, duplicates elsewhere get `in-progress`. If `work` fails, its writes are rolled back to a
   * savepoint, and the transaction can continue.
   *
   * @example
   * await client.query('begin')
   * const answer = await holdfast.once.inTransaction(client, `message:${id}`, async ({ tx }) => book(tx))
   * await client.query('commit')
   */
  inTransaction<T>(
    client: CallerTransaction,
    key: string,
    work: (delivery: Delivery) => Promise<T> | T,
  ): Promise<OnceAnswer<T>>
  /** Runs `work` in the caller's open transaction, with options. */
  inTransaction<T>(
    client: CallerTransaction,
    key: string,
    options: OnceInTransactionOptions,
    work: (delivery: Delivery) => Promise<T> | T,
  ): Promise<OnceAnswer<T>>
  /** @internal */
  async inTransaction<T>(
    client: CallerTransaction,
    key: string,
    ...rest: OptionsAndWork<OnceInTransactionOptions, (delivery: Delivery) => Promise<T> | T>
  ): Promise<OnceAnswer<T>> {
    const [options, work] = readWork('once.inTransaction', rest)
    const parsed = this.#parseOptions('once.inTransaction', key, options, transactionRules)
    const { openTransaction } = this.#settings.attempts
    const caller = { executor: executorOf(client), given: openTransaction && client }
    const codec = jsonCodec as AnswerCodec<T>
    return this.#runObserved('once.inTransaction', parsed, work, (observed) =>
      this.#poll(parsed, codec, (attempt) => {
        // Other callers must not wait for the claim, because the connection of the caller's transaction may be busy for any
        // length of time.
        const onClaimed = () => this.#attempts.set(parsed.key, attempt)
        return runInTransaction(caller, this.#store, parsed, observed, codec, attempt, onClaimed)
      }),
    )
  }

  /**
   * Removes a key's result, so that the next call runs the work again. Returns false if the key had no result. Does not
   * affect a run in flight.
   *
   * @example
   * await holdfast.once.forget(`stripe:${eventId}`)
   */
  async forget(key: string): Promise<boolean> {
    checkName(key, 'key')
    return this.#calls.write(() => this.#store.forget(key))
  }

  /** @internal Like `run`, with a different codec for results. */
  async runWith<T>(
    where: string,
    key: string,
    work: Work<T>,
    options: OnceOptions | undefined,
    codec: AnswerCodec<T>,
  ): Promise<OnceAnswer<T>> {
    const parsed = this.#parseOptions(where, key, options, rules)
    return this.#runObserved(where, parsed, work, (observed) =>
      this.#poll(parsed, codec, (attempt, giveUp) => {
        this.#attempts.set(parsed.key, attempt)
        return this.#runs.claimAndRun(parsed, observed, codec, attempt, giveUp)
      }),
    )
  }

  /** @internal Removes one batch of expired rows. */
  sweep(): Promise<number> {
    return this.#store.sweep()
  }

  /** @internal */
  drain(): Promise<void> {
    return this.#runs.drain()
  }

  /** @internal Resolves when all writes by earlier calls are recorded. */
  waitForWrites(): Promise<void> {
    return this.#calls.waitForWrites()
  }

  /** @internal Waits up to the expiry for runs in flight. */
  async close(): Promise<void> {
    this.#calls.close()
    await this.#runs.close()
  }

  #parseOptions(
    where: string,
    key: string,
    given: OnceOptions | undefined,
    known: Partial<typeof rules>,
  ): ParsedOptions {
    const options = readOptions(where, given, known as typeof rules)
    return {
      key: checkName(key, 'key'),
      until: performance.now() + (options.wait ?? defaultTimes.onceWaitMs),
      retainMs: Math.ceil(options.retain ?? defaultTimes.onceRetainMs),
      fingerprint: options.fingerprint ?? null,
      recordsFailures: options.failures === 'record',
      signal: options.signal,
    }
  }

  /** Emits the event for a key's result, and records a tracing span for the run. */
  async #runObserved<T>(
    where: string,
    { key, until }: ParsedOptions,
    work: Work<T>,
    perform: (work: Work<T>) => Promise<OnceAnswer<T>>,
  ): Promise<OnceAnswer<T>> {
    const { events, tracing, middleware } = this.#settings
    let startedAt: number | undefined
    const durationMs = () => performance.now() - startedAt!
    try {
      const observed: Work<T> = (delivery) => {
        startedAt = performance.now()
        const { tracer } = tracing
        const { fence } = delivery
        const call = () => (tracer ? tracer.withSpan('once run', { key, fence }, () => work(delivery)) : work(delivery))
        return middleware.run
          ? (middleware.run({ type: 'delivery', key, signal: delivery.signal }, call) as Promise<T>)
          : call()
      }
      const answer = await this.#calls.run(
        where,
        () => key,
        until > performance.now(),
        () => perform(observed),
      )
      if (answer.status === 'done') events.emitter('delivery.done')?.({ key, durationMs: durationMs() })
      else events.emitter(answer.status === 'replayed' ? 'delivery.replayed' : 'delivery.refused')?.({ key })
      return answer
    } catch (error) {
      if (startedAt === undefined && isInstance(error, RecordedFailureError))
        events.emitter('delivery.replayed')?.({ key })
      else if (startedAt === undefined && isInstance(error, FingerprintMismatchError))
        events.emitter('delivery.mismatched')?.({ key })
      else if (startedAt !== undefined && isInstance(error, OnceLostError)) {
        events.emitter('delivery.lost')?.({ key, durationMs: durationMs(), reason: error })
      } else if (startedAt !== undefined) events.emitter('delivery.failed')?.({ key, durationMs: durationMs(), error })
      throw error
    }
  }

  /** Polls the key until it has a result or the wait ends. */
  async #poll<T>(options: ParsedOptions, codec: AnswerCodec<T>, attemptKey: Attempt<T>): Promise<OnceAnswer<T>> {
    const { key, until, signal } = options
    const giveUp = combineSignals(this.#calls.closing, signal)
    try {
      for (let attempt = 0, busy = 0; ; attempt++) {
        giveUp.signal.throwIfAborted()
        // If several callers in this process wait for the same key, one caller polls and the others share its result.
        const first = this.#attempts.get(key)
        const other = first?.hasEnded ? undefined : first
        const result = other
          ? await orAborted(giveUp.signal, other.result)
          : await this.#runAttempt(key, attemptKey, giveUp.signal)
        if (result.state === 'finished') return { status: 'done', value: result.value }
        if (result.state === 'retry') continue
        const leftMs = until - performance.now()
        if (result.state === 'busy' && leftMs <= 0 && busy < maxBusyPolls) {
          await pause(2 ** busy++, giveUp.signal)
          continue
        }
        if (result.state === 'unreachable' && leftMs <= 0) throw result.error
        if (result.state === 'done' || result.state === 'failed' || result.state === 'in-flight') {
          checkFingerprint(options, result.fingerprint)
        }
        if (result.state === 'done') return { status: 'replayed', value: codec.decode(result.written) }
        if (result.state === 'failed') throw new RecordedFailureError(key, decodeFailure(result.written))
        if (leftMs <= 0) return { status: 'in-progress' }
        const nextPoll = pause(Math.min(leftMs, backoffMs(attempt, 20, maxPauseMs)), giveUp.signal)
        await (other ? Promise.race([nextPoll, other.ended]) : nextPoll)
      }
    } finally {
      giveUp.forget()
    }
  }

  async #runAttempt<T>(
    key: string,
    attemptKey: Attempt<T>,
    giveUp: AbortSignal,
  ): Promise<AttemptResult | FinishedRun<T>> {
    const running = new KeyAttempt()
    try {
      const result = await attemptKey(running, giveUp)
      if (result.state !== 'finished') running.report(result)
      return result
    } finally {
      if (this.#attempts.get(key) === running) this.#attempts.delete(key)
      running.end()
    }
  }
}

/** A caller without a fingerprint accepts any result. */
function checkFingerprint({ key, fingerprint }: ParsedOptions, known: string | null): void {
  if (fingerprint !== null && known !== null && fingerprint !== known) throw new FingerprintMismatchError(key)
}
