import { isInstance, orAborted, resultWithin, UsageError } from '../base/index.js'
import {
  type CallerTransaction,
  type Database,
  DatabaseUnreachableError,
  type Executor,
  loadStatements,
  markOwnTransaction,
  type OpenTransaction,
  responseTimeoutMs,
  type Statement,
  sqlstate,
  sqlstateOf,
  type Transaction,
} from '../postgres/index.js'
import { inOpenedTransaction } from './opened-transaction.js'

type StatementName = 'attempt_transaction' | 'begin_attempt' | 'is_same_transaction' | 'is_working'

/** The parts of an instance that its handlers' transactions need. */
export interface TransactionContext {
  readonly database: Database
  readonly statements: Record<StatementName, Statement>
  readonly expiryMs: number
  readonly instanceId: string
  /** The `transaction` option. Undefined if Holdfast opens the transactions. */
  readonly openTransaction: OpenTransaction | undefined
}

export function transactionContext(
  options: Omit<TransactionContext, 'statements'> & { readonly schema: string },
): TransactionContext {
  const { database, schema, expiryMs, instanceId, openTransaction } = options
  const statements = loadStatements<StatementName>(new URL('./once.sql', import.meta.url), schema)
  return { database, statements, expiryMs, instanceId, openTransaction }
}

/** Result of the statement `attempt_transaction` or `begin_attempt`. */
interface BegunRow {
  readonly pid: number
  /** Start of the transaction, which identifies the transaction. */
  readonly began: string
}

/** A transaction that has begun. */
interface Opened extends BegunRow {
  readonly executor: Executor
  /** The object that the handler receives. */
  readonly given: CallerTransaction
}

type LastWork = (opened: Opened) => Promise<void>

/**
 * Transaction of an attempt. Holdfast begins the transaction with the first query. If the user has passed the `transaction` option, the
 * user's function opens the transaction when the handler reads `tx`. An attempt that does not use its transaction needs no connection.
 *
 * Heartbeats keep the idle transaction open. If they stop, the server ends the transaction at the expiry and releases its row locks. If a
 * response takes longer than the expiry, another connection checks whether the server is still executing the query. If not, the connection
 * is lost and the attempt fails.
 */
export class RunTransaction {
  readonly #context: TransactionContext
  readonly #signal: AbortSignal
  /** Signal that aborts when the connection is lost. */
  readonly #silence = new AbortController()
  readonly #unanswered = new Set<{ readonly sentAt: number; isSuspect: boolean }>()
  #opened: Promise<Opened> | undefined
  #transaction: Promise<void> | undefined
  /** Error that ended the transaction before the attempt ended. */
  #failure: { readonly error: unknown } | undefined
  #given: Promise<CallerTransaction> | undefined
  #isSealed = false
  #finish: (work: LastWork) => void = () => {}

  constructor(context: TransactionContext, signal: AbortSignal) {
    this.#context = context
    this.#signal = signal
  }

  /** The object that the handler receives: Holdfast's own transaction, or a promise of the user's transaction. */
  get tx(): Transaction | Promise<CallerTransaction> {
    if (!this.#context.openTransaction) return this.#own
    if (this.#given === undefined) {
      this.#given = this.#usable(async () => (await this.#open()).given)
      // A handler that does not await its transaction receives the error at the end of the attempt.
      this.#given.catch(() => {})
    }
    return this.#given
  }

  readonly #own: Transaction = markOwnTransaction({
    query: <Row>(text: string, values?: readonly unknown[]) =>
      this.#usable(async () => {
        const { executor } = await this.#open()
        return { rows: await this.#send<Row>(executor, text, values) }
      }),
  })

  /** Makes the transaction reject further queries. Returns true if there is a transaction to commit. */
  seal(): boolean {
    this.#isSealed = true
    return this.#opened !== undefined
  }

  /** Runs `last` in the transaction and commits. If `last` throws, rolls back and rethrows the error. */
  commit(last: (tx: Executor) => Promise<void>): Promise<void> {
    return this.commitChecked(async (tx, began) => {
      const [row] = await tx.query<{ yes: boolean }>(this.#context.statements.is_same_transaction.text, [began])
      if (row!.yes) await last(tx)
      return row!.yes
    })
  }

  /**
   * Like `commit`, for a statement that also checks whether the transaction is still the one that began at `began`.
   * `last` returns false if the handler has ended that transaction.
   */
  commitChecked(last: (tx: Executor, began: string) => Promise<boolean>): Promise<void> {
    return this.#close(async ({ executor, began }) => {
      const isSame = await last(executor, began).catch((error) => {
        // The driver's client already knows that its transaction has ended.
        if (isInstance(error, UsageError)) return false
        throw error
      })
      if (!isSame) throw endedError()
    })
  }

  async rollback(): Promise<void> {
    await this.#close(() => Promise.reject(new RollbackRequest())).catch(() => {})
  }

  /** Runs `work` if the attempt may still use the transaction. Rejects when the attempt loses this right. */
  async #usable<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isSealed) {
      throw new UsageError(
        'The transaction of this run has ended',
        'Await every query of `tx` before the function that received `tx` returns.',
      )
    }
    const ends = [this.#signal, this.#silence.signal]
    for (const end of ends) end.throwIfAborted()
    return orAborted(ends, work())
  }

  async #send<Row>(executor: Executor, text: string, values?: readonly unknown[]): Promise<Row[]> {
    const pending = { sentAt: performance.now(), isSuspect: false }
    this.#unanswered.add(pending)
    try {
      return await executor.query<Row>(text, values)
    } finally {
      this.#unanswered.delete(pending)
    }
  }

  async #close(last: LastWork): Promise<void> {
    if (!this.seal()) return
    this.#finish(last)
    // The user's library may wait for the response to its commit without a limit.
    const ended = await resultWithin(
      2 * responseTimeoutMs,
      this.#transaction!.then(() => true),
    )
    if (ended) return
    const error = silentError()
    this.#failure ??= { error }
    throw error
  }

  #open(): Promise<Opened> {
    this.#opened ??= new Promise<Opened>((resolve, reject) => {
      const ending = new Promise<LastWork>((end) => {
        this.#finish = end
      })
      const { openTransaction } = this.#context
      this.#transaction = openTransaction
        ? inOpenedTransaction(openTransaction, async (tx, given) =>
            this.#hold({ executor: tx, given, ...(await this.#begin(tx)) }, resolve, ending),
          )
        : this.#beginOwn((tx, begun) => this.#hold({ executor: tx, given: this.#own, ...begun }, resolve, ending))
      this.#transaction.catch((error) => {
        this.#failure ??= { error }
        reject(error)
      })
    })
    return this.#opened
  }

  /** Keeps the transaction open until the attempt ends. When this method resolves, the transaction commits. */
  async #hold(opened: Opened, onOpened: (opened: Opened) => void, ending: Promise<LastWork>): Promise<void> {
    onOpened(opened)
    let lastBeat = performance.now()
    const heartbeat = setInterval(() => {
      const pauseMs = performance.now() - lastBeat
      lastBeat += pauseMs
      // After a freeze, the server has ended the transaction. A write to the closed socket makes postgres.js throw an uncaught error.
      if (pauseMs < this.#context.expiryMs) void this.#heartbeat(opened)
    }, this.#context.expiryMs * 0.28)
    const last = await ending
    clearInterval(heartbeat)
    if (this.#failure) throw this.#failure.error
    const ended = await resultWithin(
      responseTimeoutMs,
      last(opened).then(() => true),
    )
    if (!ended) throw silentError()
  }

  /**
   * Begins a transaction and the attempt in one round trip. The server ends the transaction if this process freezes or
   * loses its connection, so that the next attempt does not wait for the transaction's row locks.
   */
  #beginOwn(work: (tx: Executor, begun: BegunRow) => Promise<void>): Promise<void> {
    const { database, statements, expiryMs } = this.#context
    const first = `set local idle_in_transaction_session_timeout = ${expiryMs}; ${statements.attempt_transaction.text}`
    const begin = async (tx: Executor, [begun]: readonly unknown[]) => {
      this.#signal.throwIfAborted()
      return work(tx, begun as BegunRow)
    }
    return database.transaction(begin, responseTimeoutMs, first)
  }

  /** Begins the attempt in a transaction that the user's library has begun. */
  async #begin(executor: Executor): Promise<BegunRow> {
    const { statements, expiryMs, instanceId } = this.#context
    const values = [String(expiryMs), instanceId]
    const [row] = await executor
      .query<BegunRow & { known: boolean }>(statements.begin_attempt.text, values)
      .catch((error) => {
        throw sqlstateOf(error) === sqlstate.undefinedTable ? otherDatabaseError() : error
      })
    // The row of an instance that has lost its presence may be deleted already.
    this.#signal.throwIfAborted()
    if (!row!.known) throw otherDatabaseError()
    return row!
  }

  async #heartbeat({ executor, pid }: Opened): Promise<void> {
    const [oldest] = this.#unanswered
    // The transaction is not idle while a query is pending.
    if (oldest === undefined) return void this.#send(executor, 'select 1 as one').catch(() => {})
    if (performance.now() - oldest.sentAt < this.#context.expiryMs) return
    const isWorking = await this.#isWorking(pid)
    // Checks twice, because the response may still be in transit after the first check.
    if (!isWorking && oldest.isSuspect && this.#unanswered.has(oldest)) this.#silence.abort(silentError())
    oldest.isSuspect = !isWorking
  }

  async #isWorking(pid: number): Promise<boolean> {
    const { database, statements } = this.#context
    const answered = database.query<{ yes: boolean }>(statements.is_working.text, [pid], responseTimeoutMs)
    // If the database is unreachable, the instance's presence detects the outage.
    return answered.then(
      ([row]) => row!.yes,
      () => true,
    )
  }
}

function silentError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('The connection of the transaction is not responding')
}

function otherDatabaseError(): UsageError {
  return new UsageError(
    "Expected the option transaction to open a transaction in this instance's database, got one in another database",
    'Use the same database for your library and for the option url, pool or sql of Holdfast.open.',
  )
}

function endedError(): UsageError {
  return new UsageError(
    'Expected the transaction of the handler to be open when the handler returns, but the handler has ended it',
    'Throw an error instead of rolling back, and let Holdfast commit.',
  )
}

class RollbackRequest extends Error {}
