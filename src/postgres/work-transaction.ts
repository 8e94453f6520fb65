import { UsageError, whenAborted } from '../base/index.js'
import type { Database, Executor } from './port.js'

/** What work writes with, so that its effect and the record of it commit together. It has the `query` of a client of `pg`. */
export interface Transaction {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>
}

/** If this process freezes or is cut off, the server ends the transaction: whoever takes over must not wait for its row locks. */
const hurry = "select set_config('idle_in_transaction_session_timeout', $1, true)"

/**
 * The transaction of some work (a run, an attempt), begun when the work first asks something of it: work that does not
 * use it takes no connection. While the work does something else, the server hears from time to time that this process lives; if it
 * does not, the server ends the transaction at the expiry, and its row locks stand in nobody's way.
 *
 *     untouched ──► open ──► committed
 *         │           └────► rolled back
 *         └──► over
 */
export class WorkTransaction {
  readonly #database: Database
  readonly #expiryMs: number
  readonly #signal: AbortSignal
  readonly #until: string
  #opened: Promise<Executor> | undefined
  #whole: Promise<void> | undefined
  #isOver = false
  /** One statement after the other, as drivers want them. */
  #last: Promise<unknown> = Promise.resolve()
  #unanswered = 0
  #end: (work: (tx: Executor) => Promise<void>) => void = () => {}

  /** `until` says to people by when every query must have been awaited. */
  constructor(database: Database, expiryMs: number, signal: AbortSignal, until: string) {
    this.#database = database
    this.#expiryMs = expiryMs
    this.#signal = signal
    this.#until = until
  }

  /** What the work sees of it. */
  readonly tx: Transaction = {
    query: async <Row>(text: string, values?: readonly unknown[]) => {
      if (this.#isOver) {
        throw new UsageError(
          'The transaction of this run is over',
          `Await every query of \`tx\` before ${this.#until} resolves.`,
        )
      }
      // A connection that has fallen silent must not keep a lost run from its end.
      return unlessAborted(this.#signal, async () => {
        const executor = await this.#open()
        return { rows: await this.#inTurn(() => executor.query<Row>(text, values)) }
      })
    },
  }

  /** Takes no query any more; answers whether there is anything to commit. */
  seal(): boolean {
    this.#isOver = true
    return this.#opened !== undefined
  }

  /** Runs `last` in it and commits; throws, rolled back, when `last` throws. */
  commit(last: (tx: Executor) => Promise<void>): Promise<void> {
    return this.#close(last)
  }

  async rollback(): Promise<void> {
    await this.#close(() => Promise.reject(new RolledBack())).catch(() => {})
  }

  async #close(last: (tx: Executor) => Promise<void>): Promise<void> {
    if (!this.seal()) return
    this.#end(last)
    await this.#whole
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#unanswered++
    const answer = this.#last.then(work)
    this.#last = answer.then(
      () => this.#unanswered--,
      () => this.#unanswered--,
    )
    return answer
  }

  #open(): Promise<Executor> {
    this.#opened ??= new Promise<Executor>((resolve, reject) => {
      const ending = new Promise<(tx: Executor) => Promise<void>>((end) => {
        this.#end = end
      })
      this.#whole = this.#database.transaction(async (tx) => {
        await tx.query(hurry, [String(this.#expiryMs)])
        resolve(tx)
        const beat = setInterval(() => {
          // What is under way keeps it from being idle.
          if (this.#unanswered === 0) void this.#inTurn(() => tx.query('select')).catch(() => {})
        }, this.#expiryMs * 0.28)
        try {
          const last = await ending
          clearInterval(beat)
          await this.#last
          await last(tx)
        } finally {
          clearInterval(beat)
        }
      })
      this.#whole.catch(reject)
    })
    return this.#opened
  }
}

async function unlessAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted()
  let forget = () => {}
  const aborted = new Promise<never>((_, reject) => {
    forget = whenAborted(signal, reject)
  })
  try {
    return await Promise.race([work(), aborted])
  } finally {
    forget()
  }
}

class RolledBack extends Error {}
