import type { ClaimResult } from './store.js'

/** What a look at a key finds. */
export type AttemptResult =
  | Exclude<ClaimResult, { state: 'claimed' | 'in-grace' }>
  | { readonly state: 'unreachable'; readonly error: Error }

/** The look has become a run of our own, and this is its answer. */
export interface FinishedRun<T> {
  readonly state: 'finished'
  readonly value: T
}

/** Looks at a key, and runs it if it is free; tells `turn` as soon as others can know. */
export type Attempt<T> = (attempt: KeyAttempt, giveUp: AbortSignal) => Promise<AttemptResult | FinishedRun<T>>

/** One caller of this process that looks at a key, and runs it if it is free, while others wait for what it finds. */
export class KeyAttempt {
  readonly result: Promise<AttemptResult>
  readonly ended: Promise<void>
  /** Whether another may look for itself. */
  hasEnded = false
  #resolveResult!: (found: AttemptResult) => void
  #resolveEnded!: () => void

  constructor() {
    this.result = new Promise((resolve) => {
      this.#resolveResult = resolve
    })
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve
    })
  }

  /** Only what is told first counts. */
  report(result: AttemptResult): void {
    this.#resolveResult(result)
  }

  /** Whoever has heard nothing until now looks for itself. */
  end(): void {
    this.hasEnded = true
    this.#resolveResult({ state: 'retry' })
    this.#resolveEnded()
  }
}
