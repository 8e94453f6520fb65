import { UsageError, whenAborted } from '../base/index.js'
import type { Database, Executor, Statement } from '../postgres/index.js'

/** What a run writes with, so that its effect and its answer commit together. It has the `query` of a client of `pg`. */
export interface Transaction {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>
}

/**
 * The transaction of a run, begun when the run first asks something of it: a run that does not use it takes no
 * connection. While the run does something else, the server hears from time to time that this process lives; if it
 * does not, the server ends the transaction at the expiry, and its row locks stand in nobody's way.
 *
 *     untouched ──► open ──► committed
 *         │           └────► rolled back
 *         └──► over
 */
export class RunTransaction {
  readonly #database: Database
  readonly #hurry: Statement
  readonly #expiryMs: number
  readonly #signal: AbortSignal
  #opened: Promise<Executor> | undefined
  #whole: Promise<void> | undefined
  #isOver = false
  #unanswered = 0
  #end: (work: (tx: Executor) => Promise<void>) => void = () => {}

  constructor(database: Database, hurry: Statement, expiryMs: number, signal: AbortSignal) {
    this.#database = database
    this.#hurry = hurry
    this.#expiryMs = expiryMs
    this.#signal = signal
  }

  /** What the run sees of it. */
  readonly tx: Transaction = {
    query: async <Row>(text: string, values?: readonly unknown[]) => {
      if (this.#isOver) {
        throw new UsageError(
          'The transaction of this run is over',
          'Await every query of `tx` before the function of once.run resolves.',
        )
      }
      // A connection that has fallen silent must not keep a lost run from its end.
      return unlessAborted(this.#signal, async () => {
        return { rows: await this.#ask<Row>(await this.#open(), text, values) }
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

  async #ask<Row>(tx: Executor, text: string, values?: readonly unknown[]): Promise<Row[]> {
    this.#unanswered++
    try {
      return await tx.query<Row>(text, values)
    } finally {
      this.#unanswered--
    }
  }

  #open(): Promise<Executor> {
    this.#opened ??= new Promise<Executor>((resolve, reject) => {
      const ending = new Promise<(tx: Executor) => Promise<void>>((end) => {
        this.#end = end
      })
      this.#whole = this.#database.transaction(async (tx) => {
        await tx.query(this.#hurry.text, [String(this.#expiryMs)])
        resolve(tx)
        const beat = setInterval(() => {
          // What is under way keeps it from being idle.
          if (this.#unanswered === 0) void this.#ask(tx, 'select').catch(() => {})
        }, this.#expiryMs * 0.28)
        try {
          const last = await ending
          await last(tx)
        } finally {
          clearInterval(beat)
        }
        // A run that is lost gives up its connection, which may have fallen silent.
      }, this.#signal)
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
