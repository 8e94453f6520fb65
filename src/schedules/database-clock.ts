/**
 * Estimates the database's clock from its last response and this process's monotonic clock. Does not use this machine's
 * wall clock. The estimate lags behind the database's clock by the time that a response takes to arrive. It is never
 * ahead.
 */
export class DatabaseClock {
  #databaseMs = 0
  #setAt = Number.NEGATIVE_INFINITY

  /** Sets the clock to the database's time in a response that has just arrived. */
  set(nowMs: number): void {
    this.#databaseMs = nowMs
    this.#setAt = performance.now()
  }

  /** Returns the estimated time in milliseconds since 1970, or NaN before the first response. */
  now(): number {
    return this.#setAt === Number.NEGATIVE_INFINITY ? Number.NaN : this.#databaseMs + performance.now() - this.#setAt
  }
}
