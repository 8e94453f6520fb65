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

/** What a run writes with, so that its effect and its answer commit together. It has the `query` of a client of `pg`. */
export interface Transaction {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>
}

export type TransactionStatements = Record<'set_idle_timeout' | 'is_working', Statement>

/** For the rooms above, whose work writes in the same way. */
export function transactionStatements(schema: string): TransactionStatements {
  return loadStatements<'set_idle_timeout' | 'is_working'>(new URL('./once.sql', import.meta.url), schema)
}

/**
 * The transaction of a run, begun when the run first asks something of it: a run that does not use it takes no
 * connection.
 *
 *     untouched ──► open ──► committed
 *         │           └────► rolled back
 *         └──► over
 *
 * While the run does something else, the server hears from time to time that this process lives; if it does not, the
 * server ends the transaction at the expiry, and its row locks stand in nobody's way. While the run waits long for an
 * answer, the server is asked, by another connection, whether it still works on it; if it does not, the connection has
 * fallen silent, and the run must not wait for ever.
 */
export class RunTransaction {
  readonly #database: Database
  readonly #statements: TransactionStatements
  readonly #expiryMs: number
  readonly #signal: AbortSignal
  /** Aborts when nothing can be heard from the connection any more. */
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

  /** What the run sees of it. */
  readonly tx: Transaction = markOwnTransaction({
    query: async <Row>(text: string, values?: readonly unknown[]) => {
      if (this.#isSealed) {
        throw new UsageError(
          'The transaction of this run is over',
          'Await every query of `tx` before the function that was given it resolves.',
        )
      }
      const ends = [this.#signal, this.#silence.signal]
      for (const end of ends) end.throwIfAborted()
      return orAborted(ends, this.#query<Row>(text, values))
    },
  })

  /** Takes no query any more; answers whether there is anything to commit. */
  seal(): boolean {
    this.#isSealed = true
    return this.#opened !== undefined
  }

  /** Runs `last` in it and commits; throws, rolled back, when `last` throws. */
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
        // Not waited for: what the run asks comes behind it on the connection.
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
    // What is under way keeps it from being idle.
    if (oldest === undefined) return void tx.query('select').catch(() => {})
    if (performance.now() - oldest.sentAt < this.#expiryMs) return
    const isWorking = this.#pid !== undefined && (await this.#isWorking(this.#pid))
    // Twice, because its answer may just be on its way.
    if (!isWorking && oldest.isSuspect && this.#unanswered.has(oldest)) this.#silence.abort(silentError())
    oldest.isSuspect = !isWorking
  }

  async #isWorking(pid: number): Promise<boolean> {
    const answered = this.#database.query<{ yes: boolean }>(this.#statements.is_working.text, [pid], responseTimeoutMs)
    // Whether the database can be reached at all is for the life of the instance to say.
    return answered.then(
      ([row]) => row!.yes,
      () => true,
    )
  }
}

function silentError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('The connection of the transaction has fallen silent')
}

class RollbackRequest extends Error {}
