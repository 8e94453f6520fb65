import { LockTableFullError, type Session, type Statement } from '../postgres/index.js'

/**
 * Prevents Holdfast from filling the server's lock table. A full lock table would make every client's statements fail,
 * including DDL. With thousands of locks, counting takes milliseconds, so the locks are counted once per 16 to 256
 * grants. Between two counts, each instance can exceed the budget by that number of locks. The table can actually hold
 * about twice the guaranteed budget.
 */
export class LockBudget {
  #grantedSinceCount = 0

  constructor(readonly countLocks: Statement) {}

  /** Throws an error if `count` more locks would exceed the budget. */
  async reserve(session: Session, count: number): Promise<void> {
    const step = Math.max(16, Math.min(256, session.lockBudget / 16))
    this.#grantedSinceCount += count
    if (this.#grantedSinceCount < step) return
    this.#grantedSinceCount = count
    const inUse = Number((await session.run(this.countLocks))[0]![0])
    if (inUse + count <= session.lockBudget) return
    // Makes the next call count the locks again.
    this.#grantedSinceCount = step
    throw new LockTableFullError(
      `Acquiring ${count} more locks would fill the server's lock table: ${inUse} of ${session.lockBudget} locks are in use`,
      { budget: session.lockBudget, inUse },
    )
  }

  giveBack(count: number): void {
    this.#grantedSinceCount = Math.max(0, this.#grantedSinceCount - count)
  }
}
