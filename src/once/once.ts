import { randomUUID } from 'node:crypto'
import {
  abortSignal,
  backoffMs,
  ClosedError,
  checkName,
  type Duration,
  describe,
  duration,
  type HoldfastError,
  oneOf,
  pause,
  readOptions,
  UsageError,
  whenAborted,
} from '../base/index.js'
import {
  type CallerExecutor,
  type CallerTransaction,
  type Database,
  DatabaseUnreachableError,
  type Executor,
  executorOf,
  type Life,
  type Presence,
  sqlstate,
  sqlstateOf,
} from '../postgres/index.js'
import { type Form, isAnswer, json, readFailure, type Written, writeFailure } from './answer.js'
import { FingerprintMismatchError, OnceLostError, RecordedFailureError } from './errors.js'
import { answerWithinMs, type Claim, type Ending, Ledger, type Seen } from './ledger.js'
import { RunTransaction, type Transaction } from './transaction.js'

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

/** What a run is given. */
export interface Delivery {
  readonly key: string
  /** Writes that commit together with the answer. The transaction begins with the first query. */
  readonly tx: Transaction
  /** Aborts when another run may take over, before it can. The reason is a `OnceLostError`. */
  readonly signal: AbortSignal
  /** Larger than that of every earlier run of the key. */
  readonly fence: number
}

export type Answer<T> = { readonly status: 'done' | 'replayed'; readonly value: T } | { readonly status: 'in-progress' }

export interface OnceSettings {
  readonly database: Database
  readonly presence: Presence
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
}

const longestWait = 24 * 86_400_000
const longestRetain = 3_650 * 86_400_000

const transactionRules = {
  wait: duration(0, longestWait),
  retain: duration(1_000, longestRetain),
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

interface Asked {
  readonly key: string
  readonly until: number
  readonly retainMs: number
  readonly fingerprint: string | null
  readonly recordsFailures: boolean
  readonly signal: AbortSignal | undefined
}

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
  /** The keys that this process asks about or runs at this moment. */
  readonly #here = new Map<string, Turn>()
  readonly #runs = new Set<Promise<unknown>>()
  /** What goes on after its caller was answered: claims and answers of which nobody knows whether they arrived. */
  readonly #chases = new Set<Promise<void>>()
  readonly #closing = new AbortController()
  readonly #givingUp = new AbortController()

  /** @internal */
  constructor(settings: OnceSettings) {
    this.#settings = settings
    this.#ledger = new Ledger({ ...settings, instanceId: settings.presence.instanceId })
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
   * The same in an open transaction of the caller (of pg or postgres.js), with which the answer is recorded, or not. Until
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
    return this.#look(asked, form, (turn) => this.#runInside(caller, asked, work, form, turn))
  }

  /**
   * Lets a key be run again, as an operator may want after a recorded failure. False when it had no answer; a run in
   * flight is left alone.
   *
   * @example
   * await holdfast.once.forget(`stripe:${eventId}`)
   */
  forget(key: string): Promise<boolean> {
    return this.#ledger.forget(checkName(key, 'key'))
  }

  /** @internal `run`, for answers of another form. */
  async perform<T>(
    where: string,
    key: string,
    work: (delivery: Delivery) => Promise<T> | T,
    options: OnceOptions | undefined,
    form: Form<T>,
  ): Promise<Answer<T>> {
    const asked = this.#read(where, key, work, options, rules)
    return this.#look(asked, form, (turn, giveUp) => this.#claimAndRun(asked, work, form, turn, giveUp))
  }

  /** @internal Removes one piece of what has expired. */
  sweep(): Promise<number> {
    return this.#ledger.sweep()
  }

  /** @internal Lets the runs in flight come to their end, for as long as the expiry; then gives them up. */
  async close(): Promise<void> {
    this.#closing.abort(new ClosedError('This instance'))
    const giveUp = setTimeout(() => this.#givingUp.abort(this.#closing.signal.reason), this.#settings.expiryMs)
    const givenUp = new Promise<void>((resolve) => whenAborted(this.#givingUp.signal, () => resolve()))
    await Promise.race([Promise.allSettled([...this.#runs]), givenUp])
    clearTimeout(giveUp)
    this.#givingUp.abort(this.#closing.signal.reason)
    await Promise.all(this.#chases)
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

  /** Looks at the key, again and again, until there is an answer or no more time. */
  async #look<T>(asked: Asked, form: Form<T>, tryIt: Try<T>): Promise<Answer<T>> {
    const { key, until, signal } = asked
    const giveUp = new AbortController()
    const forgets = [this.#closing.signal, signal].map((given) => whenAborted(given, (reason) => giveUp.abort(reason)))
    try {
      for (let attempt = 0, busy = 0; ; attempt++) {
        giveUp.signal.throwIfAborted()
        // Of several callers in this process one asks; the others hear what it hears.
        const ahead = this.#here.get(key)
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
      for (const forget of forgets) forget()
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
      this.#here.delete(key)
      turn.end()
    }
  }

  async #claimAndRun<T>(
    asked: Asked,
    work: Work<T>,
    form: Form<T>,
    turn: Turn,
    giveUp: AbortSignal,
  ): Promise<Found | Finished<T>> {
    const life = await this.#life(giveUp)
    if (!life) return unreachable('This instance has no connection, or is coming back')
    const claim = claimOf(asked, life.number)
    const seen = await this.#ledger.claim(claim).catch((error) => {
      // It may have been granted without our having heard of it, even some time after we gave the connection up.
      void this.#chase(async () => {
        await this.#ledger.release(claim)
        await pause(answerWithinMs, this.#givingUp.signal)
        await this.#ledger.release(claim)
      })
      if (error instanceof DatabaseUnreachableError) return { state: 'unreachable', error } as const
      throw error
    })
    if (seen.state === 'unsettled')
      return unreachable('The server has restarted, and somebody may still believe in a run of before')
    if (seen.state !== 'claimed') return seen
    const run = new RunInFlight(claim, seen.fence, life, this.#settings, this.#ledger.sql.hurry, this.#givingUp.signal)
    if (!life.trusted || giveUp.aborted) {
      run.end()
      await this.#letGo(claim)
      giveUp.throwIfAborted()
      return { state: 'again' }
    }
    turn.tell({ state: 'in-flight', fingerprint: claim.fingerprint })
    const running = this.#fulfil(run, asked, work, form)
    this.#runs.add(running)
    try {
      return { state: 'finished', value: await running }
    } finally {
      this.#runs.delete(running)
      run.end()
    }
  }

  /** Claims, runs and records behind a savepoint of the caller's transaction. */
  async #runInside<T>(
    caller: CallerExecutor,
    asked: Asked,
    work: Work<T>,
    form: Form<T>,
    turn: Turn,
  ): Promise<Found | Finished<T>> {
    // Nobody sees its row in flight: so no life needs to vouch for it.
    const claim = claimOf(asked, 0)
    let failure: { error: unknown } | undefined
    try {
      return await caller.attempt(async (tx) => {
        const seen = await this.#ledger.claimIn(tx, claim)
        if (seen.state !== 'claimed') return seen as Found
        turn.tell({ state: 'in-flight', fingerprint: claim.fingerprint })
        const delivery = { key: claim.key, tx: queryOf(tx), signal: new AbortController().signal, fence: seen.fence }
        const { value, written } = await outcomeOf(work, delivery, form).catch((error) => {
          failure = { error }
          throw error
        })
        const recorded = await this.#ledger.finishIn(tx, { ...claim, state: 'done', written })
        if (!recorded) throw new OnceLostError(claim.key, seen.fence, new Error('its record is gone'))
        return { state: 'finished', value }
      })
    } catch (error) {
      if (sqlstateOf(error) === sqlstate.noActiveTransaction) throw notInTransaction()
      if (failure && asked.recordsFailures && isAnswer(failure.error)) {
        const written = writeFailure(failure.error)
        await caller.attempt(async (tx) => {
          const seen = await this.#ledger.claimIn(tx, claim)
          if (seen.state === 'claimed') await this.#ledger.finishIn(tx, { ...claim, state: 'failed', written })
        })
      }
      throw error
    }
  }

  async #fulfil<T>(run: RunInFlight, asked: Asked, work: Work<T>, form: Form<T>): Promise<T> {
    const { claim, transaction } = run
    const outcome = await outcomeOf(work, run.delivery, form).catch(async (error) => {
      await atMost(answerWithinMs, transaction.rollback())
      if (asked.recordsFailures && isAnswer(error)) {
        // What the caller is to hear is the failure itself, whatever becomes of the record.
        await this.#record({ ...claim, state: 'failed', written: writeFailure(error) }).catch(() => {})
      } else await this.#letGo(claim)
      throw error
    })
    const ending: Ending = { ...claim, state: 'done', written: outcome.written }
    if (transaction.seal()) await this.#commit(run, ending)
    else if (!(await this.#record(ending))) throw run.lost()
    return outcome.value
  }

  /** Records an answer, also when it takes some tries. False: another run has taken over, and it was not recorded. */
  async #record(ending: Ending): Promise<boolean> {
    let recorded: boolean | undefined
    const recording = this.#chase(async () => {
      recorded = await this.#ledger.finish(ending)
    })
    await atMost(this.#patienceMs, recording)
    if (recorded !== undefined) return recorded
    throw new DatabaseUnreachableError(`The answer of "${ending.key}" could not be recorded yet; it is still tried`)
  }

  /** Commits effect and answer. When the commit was not answered, finds out what became of it. */
  async #commit({ claim, transaction, lost }: RunInFlight, ending: Ending): Promise<void> {
    let failure: unknown = new DatabaseUnreachableError('The commit was not answered')
    const committing = transaction
      .commit(async (tx) => {
        if (!(await this.#ledger.finishIn(tx, ending))) throw lost()
      })
      .then(
        () => true,
        (error: unknown) => {
          failure = error
          return false
        },
      )
    if (await atMost(answerWithinMs, committing)) return
    if (failure instanceof OnceLostError) throw failure
    let end: Awaited<ReturnType<Ledger['settle']>> | undefined
    const settling = this.#chase(async () => {
      end = await this.#ledger.settle(claim)
    })
    await atMost(this.#patienceMs, settling)
    if (end === 'recorded') return
    if (end === 'rolled back') throw failure
    if (end === 'taken over') throw lost(failure as Error)
    throw new DatabaseUnreachableError(
      `The connection was lost while "${claim.key}" committed: its effect and its answer are both there, or neither`,
      failure,
    )
  }

  get #patienceMs(): number {
    return Math.max(answerWithinMs, this.#settings.expiryMs)
  }

  /** Lets a key go. Waits until it is free, unless that takes long: then it goes on by itself. */
  async #letGo(claim: Claim): Promise<void> {
    await atMost(
      answerWithinMs,
      this.#chase(() => this.#ledger.release(claim)).catch(() => {}),
    )
  }

  /** Tries until it succeeds, with growing pauses; until this instance has closed, or when no further try would help. */
  #chase(work: () => Promise<void>): Promise<void> {
    const chase = (async () => {
      for (let attempt = 0; ; attempt++) {
        try {
          return await work()
        } catch (error) {
          const isPassing = (error as Partial<HoldfastError>).retryable === true
          if (!isPassing || this.#givingUp.signal.aborted) throw error
          await pause(backoffMs(attempt, 50, 2_000), this.#givingUp.signal)
        }
      }
    })()
    const told = chase.catch(() => {}).finally(() => this.#chases.delete(told))
    this.#chases.add(told)
    return chase
  }

  /** The present life, waiting a little for one that is beginning. */
  async #life(giveUp: AbortSignal): Promise<Life | undefined> {
    const { presence } = this.#settings
    if (presence.life) return presence.life
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

type Work<T> = (delivery: Delivery) => Promise<T> | T
type Found =
  | Exclude<Seen, { state: 'claimed' | 'unsettled' }>
  | { readonly state: 'unreachable'; readonly error: Error }
interface Finished<T> {
  readonly state: 'finished'
  readonly value: T
}
type Try<T> = (turn: Turn, giveUp: AbortSignal) => Promise<Found | Finished<T>>

const tooLate = new Error('too late')

/** One caller of this process that asks about a key, and runs it if it is free, while others wait for what it finds. */
class Turn {
  readonly found: Promise<Found>
  readonly over: Promise<void>
  #tell!: (found: Found) => void
  #end!: () => void

  constructor() {
    this.found = new Promise((resolve) => {
      this.#tell = resolve
    })
    this.over = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  tell(found: Found): void {
    this.#tell(found)
  }

  end(): void {
    this.#tell({ state: 'again' })
    this.#end()
  }
}

/** A run that this process has claimed, bound to a life of the instance. */
class RunInFlight {
  readonly delivery: Delivery
  readonly transaction: RunTransaction
  readonly #controller = new AbortController()
  readonly #forgets: (() => void)[]

  constructor(
    readonly claim: Claim,
    readonly fence: number,
    life: Life,
    { database, expiryMs }: OnceSettings,
    hurry: Ledger['sql']['hurry'],
    givingUp: AbortSignal,
  ) {
    const { signal } = this.#controller
    this.transaction = new RunTransaction(database, hurry, expiryMs, signal)
    this.delivery = { key: claim.key, tx: this.transaction.tx, signal, fence }
    const lose = (reason: unknown) => this.#controller.abort(this.lost(reason as Error))
    this.#forgets = [life.onLoss(lose), whenAborted(givingUp, lose)]
  }

  readonly lost = (cause: Error = new Error('another run has taken over')): OnceLostError =>
    new OnceLostError(this.claim.key, this.fence, cause)

  /** Nothing is told to it any more. */
  end(): void {
    for (const forget of this.#forgets) forget()
  }
}

function queryOf(tx: Executor): Transaction {
  return {
    query: async <Row>(text: string, values?: readonly unknown[]) => ({ rows: await tx.query<Row>(text, values) }),
  }
}

function claimOf({ key, fingerprint, retainMs }: Asked, session: number): Claim {
  return { key, token: randomUUID(), session, fingerprint, retainMs }
}

async function outcomeOf<T>(work: Work<T>, delivery: Delivery, form: Form<T>): Promise<{ value: T; written: Written }> {
  const value = await work(delivery)
  return { value, written: form.write(value) }
}

/** Those who do not say what they bring take what is there. */
function checkFingerprint({ key, fingerprint }: Asked, known: string | null): void {
  if (fingerprint !== null && known !== null && fingerprint !== known) throw new FingerprintMismatchError(key)
}

function unreachable(message: string): Found {
  return { state: 'unreachable', error: new DatabaseUnreachableError(message) }
}

function notInTransaction(): UsageError {
  return new UsageError(
    'Expected a client inside a transaction, got one outside: effect and answer would not have committed together',
    'Run `begin` on this client first, or use once.run.',
  )
}

/** The answer, or undefined when it takes longer; it goes on by itself. */
async function atMost<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
