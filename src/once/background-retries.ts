import { isRetryable, resultWithin, retryUntilRecorded } from '../base/index.js'

/**
 * Retries work that must succeed even if the database does not respond for a while, such as releasing a claim or
 * recording a result. The retries continue after the caller has received an error. They stop when the work succeeds,
 * when an error is not retryable, or when the instance closes. When an instance closes, its presence ends, which frees
 * every key that is in flight.
 */
export class BackgroundRetries {
  readonly #underWay = new Set<Promise<void>>()
  readonly #givingUp: AbortSignal

  constructor(givingUp: AbortSignal) {
    this.#givingUp = givingUp
  }

  /**
   * Runs the work with increasing pauses between attempts. After `ms`, returns undefined and continues the retries in
   * the background.
   */
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

  /** Resolves when no retries are in progress. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay)
  }
}
