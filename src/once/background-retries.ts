import { isRetryable, resultWithin, retryUntilRecorded } from '../base/index.js'

/**
 * Retries work that must succeed even if the database does not respond for a while: the release of a claim, or the
 * record of an answer. The retries continue after the caller has received an error, until the work succeeds, an error
 * is not retryable, or the instance closes. The end of its presence then frees everything in flight.
 */
export class BackgroundRetries {
  readonly #underWay = new Set<Promise<void>>()
  readonly #givingUp: AbortSignal

  constructor(givingUp: AbortSignal) {
    this.#givingUp = givingUp
  }

  /** Tries with growing pauses. Returns undefined after `ms`, and then continues in the background. */
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
