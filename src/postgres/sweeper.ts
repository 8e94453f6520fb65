interface SweeperOptions {
  /** How often, give or take a half, so that a fleet does not sweep together. */
  readonly everyMs: number
  /** Removes one piece, of a bounded size, and answers whether there may be more. */
  readonly sweep: () => Promise<boolean>
}

const resweepMs = 250

/**
 * Removes what is over, by whoever uses the room: now and then, and again soon when there was more than one piece can hold, so
 * that no pace of use leaves behind more than is swept. If it fails, the next sweep does it.
 */
export class Sweeper {
  readonly #options: SweeperOptions
  /** At first at any moment, so that it is done also where no process lives for long. */
  #dueAt: number

  constructor(options: SweeperOptions) {
    this.#options = options
    this.#dueAt = performance.now() + options.everyMs * Math.random()
  }

  sweepIfDue(): void {
    const { everyMs, sweep } = this.#options
    if (performance.now() < this.#dueAt) return
    this.#dueAt = performance.now() + everyMs * (0.5 + Math.random())
    void sweep().then(
      (hasMore) => {
        if (hasMore) this.#dueAt = performance.now() + resweepMs
      },
      () => {},
    )
  }
}
