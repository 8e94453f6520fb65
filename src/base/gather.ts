interface Asked<Ask, Answer> {
  readonly ask: Ask
  resolve(answer: Answer): void
  reject(error: unknown): void
}

interface GatherOptions {
  /** How many go out together, at most. Default 1,000. */
  readonly most?: number
}

/** After this long another batch goes out beside the one under way, whose connection may have fallen silent. */
const patienceMs = 1_000
const mostUnderWay = 4

/**
 * Gathers what is asked for in one turn of the event loop and sends it as one. While a batch is under way the next one
 * gathers, so the more is asked for, the larger the batches, and the less each costs.
 *
 * @example
 * const renewals = new Gather<string, boolean>(async (tokens) => renewAll(tokens))
 * const [first, second] = await Promise.all([renewals.ask('a'), renewals.ask('b')]) // one statement
 */
export class Gather<Ask, Answer> {
  readonly #send: (asks: readonly Ask[]) => Promise<readonly Answer[]>
  readonly #most: number
  #waiting: Asked<Ask, Answer>[] = []
  #scheduled = false
  #underWay = 0
  #impatient: NodeJS.Timeout | undefined

  /** `send` answers for each ask, in order; when it throws, all of them are answered with that. */
  constructor(send: (asks: readonly Ask[]) => Promise<readonly Answer[]>, { most = 1_000 }: GatherOptions = {}) {
    this.#send = send
    this.#most = most
  }

  ask(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ask, resolve, reject })
      if (this.#underWay === 0) this.#schedule()
      else this.#losePatienceLater()
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

  #losePatienceLater(): void {
    this.#impatient ??= setTimeout(() => {
      this.#impatient = undefined
      if (this.#waiting.length > 0 && this.#underWay < mostUnderWay) void this.#sendNext()
    }, patienceMs)
  }

  async #sendNext(): Promise<void> {
    const batch = this.#waiting.splice(0, this.#most)
    if (batch.length === 0) return
    this.#underWay++
    try {
      const answers = await this.#send(batch.map(({ ask }) => ask))
      for (const [at, asked] of batch.entries()) asked.resolve(answers[at]!)
    } catch (error) {
      for (const asked of batch) asked.reject(error)
    }
    this.#underWay--
    if (this.#waiting.length > 0) this.#schedule()
    else {
      clearTimeout(this.#impatient)
      this.#impatient = undefined
    }
  }
}
