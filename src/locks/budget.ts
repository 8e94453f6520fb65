import { LockTableFullError, type Session, type Statement } from '../postgres/index.js'

/**
 * Keeps Holdfast from filling the server's lock table, which would fail everybody on the server, DDL included.
 *
 * Every so many grants the table is counted once. The count costs milliseconds when there are thousands of locks,
 * so it is not done for each; between two counts the fleet may overshoot by that step for each instance, and the
 * table really holds about twice the budget that PostgreSQL promises.
 */
export class Budget {
  #grantedSinceCensus = 0

  constructor(readonly census: Statement) {}

  /** Throws when `asked` more locks would go beyond what the server was made for. */
  async allow(session: Session, asked: number): Promise<void> {
    const step = Math.max(16, Math.min(256, session.lockBudget / 16))
    this.#grantedSinceCensus += asked
    if (this.#grantedSinceCensus < step) return
    this.#grantedSinceCensus = asked
    const inUse = Number((await session.run(this.census))[0]![0])
    if (inUse + asked <= session.lockBudget) return
    // The next one asks again.
    this.#grantedSinceCensus = step
    throw new LockTableFullError(
      `${asked} more locks would fill the server's lock table: ${inUse} of ${session.lockBudget} are in use`,
      { budget: session.lockBudget, inUse },
    )
  }

  /** A released lock makes room. */
  returned(count: number): void {
    this.#grantedSinceCensus = Math.max(0, this.#grantedSinceCensus - count)
  }
}
