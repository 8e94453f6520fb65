/**
 * What time it is for the database, told by its answers and, between them, by the monotonic clock of this process. The
 * clock of the day of this machine has no say. It is a little behind, by the time that an answer takes; never ahead.
 */
export class DatabaseClock {
  #toldMs = 0
  #heardAt = Number.NEGATIVE_INFINITY

  /** It was this time when the answer that has just arrived was made. */
  learn(nowMs: number): void {
    this.#toldMs = nowMs
    this.#heardAt = performance.now()
  }

  /** In ms since the epoch; NaN before the first answer. */
  now(): number {
    return this.#heardAt === Number.NEGATIVE_INFINITY ? Number.NaN : this.#toldMs + performance.now() - this.#heardAt
  }
}
