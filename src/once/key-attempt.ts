import type { ClaimResult } from './store.js'

/** Result of an attempt to claim a key. */
export type AttemptResult =
  | Exclude<ClaimResult, { state: 'claimed' | 'in-grace' }>
  | { readonly state: 'unreachable'; readonly error: Error }

/** The attempt claimed the key, and the run returned this result. */
export interface FinishedRun<T> {
  readonly state: 'finished'
  readonly value: T
}

/**
 * Tries to claim a key, and runs the work if the key is free. Publishes the result to `attempt` as soon as other
 * callers may see it.
 */
export type Attempt<T> = (attempt: KeyAttempt, giveUp: AbortSignal) => Promise<AttemptResult | FinishedRun<T>>

/** Attempt by one caller in this process. Other callers with the same key wait for the result of this attempt. */
export class KeyAttempt {
  readonly result: Promise<AttemptResult>
  readonly ended: Promise<void>
  hasEnded = false
  #resolveResult!: (result: AttemptResult) => void
  #resolveEnded!: () => void

  constructor() {
    this.result = new Promise((resolve) => {
      this.#resolveResult = resolve
    })
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve
    })
  }

  /** Publishes the result. Later results are ignored. */
  report(result: AttemptResult): void {
    this.#resolveResult(result)
  }

  /** Ends the attempt. Callers that have no result then try to claim the key themselves. */
  end(): void {
    this.hasEnded = true
    this.#resolveResult({ state: 'retry' })
    this.#resolveEnded()
  }
}
