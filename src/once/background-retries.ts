import { isRetryable, resultWithin, retryUntilRecorded } from '../base/index.js'

/**
 * Retries what must succeed even if the database does not respond for a while: the release of a claim that may have been granted to no
 * caller, the record of an answer. The retries continue after the caller has received an error, until the work succeeds, no further try
 * would help, or the instance closes. Then the presence of the instance ends, and with it everything that it left in flight.
 */
export class BackgroundRetries {
  readonly #underWay = new Set<Promise<void>>()
  readonly #givingUp: AbortSignal

  constructor(givingUp: AbortSignal) {
    this.#givingUp = givingUp
  }

  /** Tries with growing pauses. Returns undefined when that takes longer than `ms`; it then continues in the background. */
  async within<T>(ms: number, work: () => Promise<T>): Promise<T | undefined> {
    const retrying = retryUntilRecorded(this.#givingUp, work, (error) => {
      if (!isRetryable(error) || this.#givingUp.aborted) throw error
      return 2_000
    })
    const ended = retrying
      .then(
        () => {},
        () => {},
      )
      .finally(() => this.#underWay.delete(ended))
    this.#underWay.add(ended)
    return resultWithin(ms, retrying)
  }

  /** Resolves when no retries are under way. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay)
  }
}
