/**
 * Estimates the database's clock from its last response and this process's monotonic clock. Does not use this machine's
 * wall clock. The estimate is behind the database's clock by the duration of a response, and never ahead.
 */
export class DatabaseClock {
  #databaseMs = 0
  #setAt = Number.NEGATIVE_INFINITY

  /** Sets the time from a response that has just arrived. */
  set(nowMs: number): void {
    this.#databaseMs = nowMs
    this.#setAt = performance.now()
  }

  /** Returns the time in ms since 1970. NaN before the first response. */
  now(): number {
    return this.#setAt === Number.NEGATIVE_INFINITY ? Number.NaN : this.#databaseMs + performance.now() - this.#setAt
  }
}
