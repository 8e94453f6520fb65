import { LockTableFullError, type Session, type Statement } from '../postgres/index.js'

/**
 * Keeps Holdfast from filling the server's lock table, which would fail everybody on the server, DDL included.
 *
 * Every so many grants the table is counted once. The count costs milliseconds when there are thousands of locks,
 * so it is not done for each; between two counts the fleet may overshoot by that step for each instance, and the
 * table really holds about twice the budget that PostgreSQL promises.
 */
export class LockBudget {
  #grantedSinceCount = 0

  constructor(readonly countLocks: Statement) {}

  /** Throws when `asked` more locks would go beyond what the server was made for. */
  async reserve(session: Session, count: number): Promise<void> {
    const step = Math.max(16, Math.min(256, session.lockBudget / 16))
    this.#grantedSinceCount += count
    if (this.#grantedSinceCount < step) return
    this.#grantedSinceCount = count
    const inUse = Number((await session.run(this.countLocks))[0]![0])
    if (inUse + count <= session.lockBudget) return
    // The next one asks again.
    this.#grantedSinceCount = step
    throw new LockTableFullError(
      `${count} more locks would fill the server's lock table: ${inUse} of ${session.lockBudget} are in use`,
      { budget: session.lockBudget, inUse },
    )
  }

  /** A released lock makes room. */
  giveBack(count: number): void {
    this.#grantedSinceCount = Math.max(0, this.#grantedSinceCount - count)
  }
}
