/**
 * What time it is for the database, told by its answers and, between them, by the monotonic clock of this process. The
 * clock of the day of this machine has no say. It is a little behind, by the time that an answer takes; never ahead.
 */
export class DatabaseClock {
  #databaseMs = 0
  #setAt = Number.NEGATIVE_INFINITY

  /** It was this time when the answer that has just arrived was made. */
  set(nowMs: number): void {
    this.#databaseMs = nowMs
    this.#setAt = performance.now()
  }

  /** In ms since the epoch; NaN before the first answer. */
  now(): number {
    return this.#setAt === Number.NEGATIVE_INFINITY ? Number.NaN : this.#databaseMs + performance.now() - this.#setAt
  }
}
