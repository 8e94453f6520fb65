/**
 * Clock of the database, extrapolated from its last response by the monotonic clock of this process. Does not use the
 * wall clock of this machine. Trails the database by the duration of a response, and is never ahead.
 */
export class DatabaseClock {
  #databaseMs = 0
  #setAt = Number.NEGATIVE_INFINITY

  /** Sets the time from a response that has just arrived. */
  set(nowMs: number): void {
    this.#databaseMs = nowMs
    this.#setAt = performance.now()
  }

  /** Returns ms since 1970. NaN before the first response. */
  now(): number {
    return this.#setAt === Number.NEGATIVE_INFINITY ? Number.NaN : this.#databaseMs + performance.now() - this.#setAt
  }
}
