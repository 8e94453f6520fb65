import { orAborted, resultWithin, UsageError } from '../base/index.js'
import {
  type Database,
  DatabaseUnreachableError,
  type Executor,
  loadStatements,
  markOwnTransaction,
  responseTimeoutMs,
  type Statement,
} from '../postgres/index.js'

/**
 * A run's transaction. Its writes commit together with the answer. `query` works like the `query` method of a `pg`
 * client.
 */
export interface Transaction {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>
}

export type TransactionStatements = Record<'set_idle_timeout' | 'is_working', Statement>

/** Loads the statements of `RunTransaction`, for the modules that extend `Attempt`. */
export function transactionStatements(schema: string): TransactionStatements {
  return loadStatements<'set_idle_timeout' | 'is_working'>(new URL('./once.sql', import.meta.url), schema)
}

/**
 * A run's transaction. The first query begins the transaction, so a run that does not use it needs no connection.
 *
 * Heartbeats keep the idle transaction open. If they stop, the server ends the transaction at expiry and releases
 * its row locks. If a response takes longer than the expiry, another connection checks whether the server is still
 * executing the query. If not, the connection is lost and the run fails.
 */
export class RunTransaction {
  readonly #database: Database
  readonly #statements: TransactionStatements
  readonly #expiryMs: number
  readonly #signal: AbortSignal
  /** Signal that aborts when the connection is lost. */
  readonly #silence = new AbortController()
  readonly #unanswered = new Set<{ readonly sentAt: number; isSuspect: boolean }>()
  #opened: Promise<Executor> | undefined
  #transaction: Promise<void> | undefined
  #pid: number | undefined
  #isSealed = false
  #finish: (work: (tx: Executor) => Promise<void>) => void = () => {}

  constructor(database: Database, statements: TransactionStatements, expiryMs: number, signal: AbortSignal) {
    this.#database = database
    this.#statements = statements
    this.#expiryMs = expiryMs
    this.#signal = signal
  }

  readonly tx: Transaction = markOwnTransaction({
    query: async <Row>(text: string, values?: readonly unknown[]) => {
      if (this.#isSealed) {
        throw new UsageError(
          'The transaction of this run has ended',
          'Await every query of `tx` before the function that received `tx` returns.',
        )
      }
      const ends = [this.#signal, this.#silence.signal]
      for (const end of ends) end.throwIfAborted()
      return orAborted(ends, this.#query<Row>(text, values))
    },
  })

  /** Rejects further queries from now on. Returns true if there is a transaction to commit. */
  seal(): boolean {
    this.#isSealed = true
    return this.#opened !== undefined
  }

  /** Runs `last` in the transaction and commits. If `last` throws, rolls back and rethrows the error. */
  commit(last: (tx: Executor) => Promise<void>): Promise<void> {
    return this.#close(last)
  }

  async rollback(): Promise<void> {
    await this.#close(() => Promise.reject(new RollbackRequest())).catch(() => {})
  }

  async #query<Row>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }> {
    const executor = await this.#open()
    const pending = { sentAt: performance.now(), isSuspect: false }
    this.#unanswered.add(pending)
    try {
      return { rows: await executor.query<Row>(text, values) }
    } finally {
      this.#unanswered.delete(pending)
    }
  }

  async #close(last: (tx: Executor) => Promise<void>): Promise<void> {
    if (!this.seal()) return
    this.#finish(last)
    await this.#transaction
  }

  #open(): Promise<Executor> {
    this.#opened ??= new Promise<Executor>((resolve, reject) => {
      const ending = new Promise<(tx: Executor) => Promise<void>>((end) => {
        this.#finish = end
      })
      this.#transaction = this.#database.transaction(async (tx) => {
        // Not awaited, because the run's queries follow on the same connection.
        tx.query<{ pid: number }>(this.#statements.set_idle_timeout.text, [String(this.#expiryMs)]).then(
          ([row]) => {
            this.#pid = row!.pid
          },
          () => {},
        )
        resolve(tx)
        const heartbeat = setInterval(() => void this.#heartbeat(tx), this.#expiryMs * 0.28)
        const last = await ending
        clearInterval(heartbeat)
        const ended = await resultWithin(
          responseTimeoutMs,
          last(tx).then(() => true),
        )
        if (!ended) throw silentError()
      }, responseTimeoutMs)
      this.#transaction.catch(reject)
    })
    return this.#opened
  }

  async #heartbeat(tx: Executor): Promise<void> {
    const [oldest] = this.#unanswered
    // The transaction is not idle while a query is pending.
    if (oldest === undefined) return void tx.query('select').catch(() => {})
    if (performance.now() - oldest.sentAt < this.#expiryMs) return
    const isWorking = this.#pid !== undefined && (await this.#isWorking(this.#pid))
    // Checks twice, because the response may still be in transit after the first check.
    if (!isWorking && oldest.isSuspect && this.#unanswered.has(oldest)) this.#silence.abort(silentError())
    oldest.isSuspect = !isWorking
  }

  async #isWorking(pid: number): Promise<boolean> {
    const answered = this.#database.query<{ yes: boolean }>(this.#statements.is_working.text, [pid], responseTimeoutMs)
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

class RollbackRequest extends Error {}
