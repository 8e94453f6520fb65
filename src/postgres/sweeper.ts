interface SweeperOptions {
  /** Mean interval. Each interval is up to 50 % shorter or longer, so that instances do not sweep at the same time. */
  readonly everyMs: number
  /** Deletes a limited number of rows. Returns whether there may be more rows to delete. */
  readonly sweep: () => Promise<boolean>
}

const resweepMs = 250

/**
 * Deletes outdated rows at intervals while a module is in use. If a sweep leaves rows behind, the next sweep follows after 250 ms, so that
 * sweeping keeps up with any rate of use. Errors are ignored, because the next sweep retries.
 */
export class Sweeper {
  readonly #options: SweeperOptions
  /** The first sweep is due at a random time within the interval, so that short-lived processes also sweep. */
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
