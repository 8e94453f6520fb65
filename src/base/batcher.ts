interface PendingItem<Item, Result> {
  readonly item: Item
  resolve(result: Result): void
  reject(error: unknown): void
}

interface BatcherOptions {
  /** How many go out together, at most. Default 1,000. */
  readonly maxBatch?: number
}

/** After this long another batch goes out beside the one under way, whose connection may have fallen silent. */
const stallMs = 1_000
const maxInFlight = 4

/**
 * Gathers what is asked for in one turn of the event loop and sends it as one. While a batch is under way the next one
 * gathers, so the more is asked for, the larger the batches, and the less each costs.
 *
 * @example
 * const renewals = new Gather<string, boolean>(async (tokens) => renewAll(tokens))
 * const [first, second] = await Promise.all([renewals.ask('a'), renewals.ask('b')]) // one statement
 */
export class Batcher<Item, Result> {
  readonly #send: (items: readonly Item[]) => Promise<readonly Result[]>
  readonly #maxBatch: number
  #pending: PendingItem<Item, Result>[] = []
  #scheduled = false
  #inFlight = 0
  #stallTimer: NodeJS.Timeout | undefined

  /** `send` answers for each ask, in order; when it throws, all of them are answered with that. */
  constructor(send: (items: readonly Item[]) => Promise<readonly Result[]>, { maxBatch = 1_000 }: BatcherOptions = {}) {
    this.#send = send
    this.#maxBatch = maxBatch
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ item, resolve, reject })
      if (this.#inFlight === 0) this.#schedule()
      else this.#sendAnywayLater()
    })
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      void this.#sendNext()
    })
  }

  #sendAnywayLater(): void {
    this.#stallTimer ??= setTimeout(() => {
      this.#stallTimer = undefined
      if (this.#pending.length > 0 && this.#inFlight < maxInFlight) void this.#sendNext()
    }, stallMs)
  }

  async #sendNext(): Promise<void> {
    const batch = this.#pending.splice(0, this.#maxBatch)
    if (batch.length === 0) return
    this.#inFlight++
    try {
      const results = await this.#send(batch.map(({ item }) => item))
      for (const [at, pending] of batch.entries()) pending.resolve(results[at]!)
    } catch (error) {
      for (const pending of batch) pending.reject(error)
    }
    this.#inFlight--
    if (this.#pending.length > 0) this.#schedule()
    else {
      clearTimeout(this.#stallTimer)
      this.#stallTimer = undefined
    }
  }
}
