import { messageOf } from '../base/index.js'
import type { Database } from './database.js'
import type { HealthReason } from './health.js'
import { sqlstateOf } from './sqlstate.js'

/** SQLSTATEs of failed writes: no space on the disk (53100), an I/O error (class 58), a read-only server (25006). */
const writeErrorPattern = /^(53100|58|25006)/
/** Time after which a failure is ignored if the statement is not sent again. */
const rememberMs = 60_000
const maxRemembered = 100

/**
 * Determines whether writes are failing, from the outcomes of the statements that the instance sends during its normal
 * operation. A failed statement counts as failing until the same statement succeeds, or for a minute after it was last
 * sent. Reads need no special case, because they do not fail for lack of space.
 */
export class WriteMonitor {
  readonly #failing = new Map<string, { readonly at: number; readonly message: string }>()

  /** Returns the given database with monitored statements. */
  wrap(database: Database): Database {
    const watched = <T>(statement: string, outcome: Promise<T>): Promise<T> => {
      outcome.then(
        () => this.#failing.delete(statement),
        (error) => this.#onFailure(statement, error),
      )
      return outcome
    }
    return {
      ...database,
      query: <Row>(text: string, values?: readonly unknown[], withinMs?: number) =>
        watched(text, database.query<Row>(text, values, withinMs)),
      transaction: (...given) => watched('transaction', database.transaction(...given)),
    }
  }

  /** Health reason while writes are failing. Undefined if no write is failing. */
  get trouble(): HealthReason | undefined {
    const since = performance.now() - rememberMs
    const [latest] = [...this.#failing.values()].filter(({ at }) => at >= since).sort((a, b) => b.at - a.at)
    return latest && { code: 'WRITES_FAILING', message: `The database rejects writes: ${latest.message}` }
  }

  #onFailure(statement: string, error: unknown): void {
    if (!writeErrorPattern.test(sqlstateOf(error) ?? '')) return
    if (this.#failing.size >= maxRemembered) this.#failing.clear()
    this.#failing.set(statement, { at: performance.now(), message: messageOf(error) })
  }
}
