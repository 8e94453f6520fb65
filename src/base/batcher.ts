interface PendingItem<Item, Result> {
  readonly item: Item
  resolve(result: Result): void
  reject(error: unknown): void
}

/**
 * Time after which the next batch is sent even if the previous batch is still in flight. The previous batch's
 * connection may be dead.
 */
const stallMs = 1_000
const maxInFlight = 4

/**
 * Collects the items that are added in one event-loop turn and sends them as one batch. While a batch is in flight, new items are collected
 * for the next batch. As the load increases, batches become larger and the cost per item falls.
 *
 * @example
 * const renewals = new Batcher<string, boolean>(async (tokens) => renewAll(tokens))
 * const [first, second] = await Promise.all([renewals.add('a'), renewals.add('b')]) // one statement
 */
export class Batcher<Item, Result> {
  readonly #send: (items: readonly Item[]) => Promise<readonly Result[]>
  readonly #maxBatch: number
  #pending: PendingItem<Item, Result>[] = []
  #scheduled = false
  #inFlight = 0
  #stallTimer: NodeJS.Timeout | undefined

  /**
   * `send` must return one result for each item, in the order of the items. If `send` throws, the promises of all items in the batch reject
   * with that error.
   */
  constructor(send: (items: readonly Item[]) => Promise<readonly Result[]>, { maxBatch = 1_000 } = {}) {
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
