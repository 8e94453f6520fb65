import { ClosedError } from './errors.js'

interface Waiter {
  resolve(): void
  reject(error: unknown): void
}

/** Pending `ready()` calls. They resolve when an instance takes part in a queue, an election or a share. */
export class Readiness {
  readonly #what: string
  #state: 'pending' | 'ready' | 'closed' = 'pending'
  #waiters: Waiter[] = []

  /**
   * `what` is the start of the error message with which waiting calls reject after `close`, for example `The worker`.
   */
  constructor(what: string) {
    this.#what = what
  }

  get isReady(): boolean {
    return this.#state === 'ready'
  }

  /** Resolves after the next success. Rejects with the next failure, or after `close`. */
  wait(): Promise<void> {
    if (this.#state === 'closed') return Promise.reject(new ClosedError(this.#what))
    if (this.#state === 'ready') return Promise.resolve()
    return new Promise((resolve, reject) => this.#waiters.push({ resolve, reject }))
  }

  succeed(): void {
    if (this.#state === 'closed') return
    this.#state = 'ready'
    for (const { resolve } of this.#waiters.splice(0)) resolve()
  }

  /** Rejects the waiting calls. Later calls wait for the next attempt, unless an earlier attempt has succeeded. */
  fail(error: unknown): void {
    for (const { reject } of this.#waiters.splice(0)) reject(error)
  }

  /** Makes later calls wait for the next success. */
  reset(): void {
    if (this.#state === 'ready') this.#state = 'pending'
  }

  close(): void {
    this.#state = 'closed'
    this.fail(new ClosedError(this.#what))
  }
}
