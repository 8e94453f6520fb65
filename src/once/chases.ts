import { atMost, backoffMs, HoldfastError, pause } from '../base/index.js'

/**
 * What must be brought to its end although the database does not answer: a claim that may have been granted to nobody, an
 * answer that is not recorded yet. It goes on after its caller was told, until it succeeds, no further try would help, or
 * the instance has closed; with its presence, what it left in flight is over.
 */
export class Chases {
  readonly #underWay = new Set<Promise<void>>()
  readonly #givingUp: AbortSignal

  constructor(givingUp: AbortSignal) {
    this.#givingUp = givingUp
  }

  /** Tries with growing pauses. The answer, or undefined when it takes longer than `ms`; then it goes on by itself. */
  async within<T>(ms: number, work: () => Promise<T>): Promise<T | undefined> {
    const chase = this.#chase(work)
    const told = chase
      .then(
        () => {},
        () => {},
      )
      .finally(() => this.#underWay.delete(told))
    this.#underWay.add(told)
    return atMost(ms, chase)
  }

  async #chase<T>(work: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await work()
      } catch (error) {
        const mayPass = error instanceof HoldfastError && error.retryable
        if (!mayPass || this.#givingUp.aborted) throw error
        await pause(backoffMs(attempt, 50, 2_000), this.#givingUp)
      }
    }
  }

  /** Resolves when none is under way. */
  async over(): Promise<void> {
    await Promise.all(this.#underWay)
  }
}
