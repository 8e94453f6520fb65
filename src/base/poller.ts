import { isRetryable } from './errors.js'
import { Wakeup } from './wakeup.js'

export interface Polling {
  /** Whether there is anything to poll for. If this method returns false, the poller stops until the next `start`. */
  isNeeded(): boolean
  poll(): Promise<void>
  /**
   * Returns the pause before the next poll. `failures` is the number of failures since the last success. `polls` is the
   * number of polls since the last wake-up.
   */
  pauseMs(failures: number, polls: number): number
  /** Called with an error that a retry cannot fix, such as a missing privilege. */
  onError?(error: unknown): void
  /** Whether to pause before the first poll. In most cases, the poll is no longer needed after this pause. */
  readonly pausesFirst?: boolean
}

/**
 * Polls while there is anything to poll for. Each poll starts after a pause, or immediately after a wake-up. Only one
 * poll runs at a time.
 */
export class Poller {
  /** Set if the last poll failed. */
  failure: { readonly error: unknown } | undefined
  readonly #polling: Polling
  readonly #wakeup = new Wakeup()
  #isRunning = false
  #isClosed = false
  #running: Promise<void> | undefined

  constructor(polling: Polling) {
    this.#polling = polling
  }

  /** Starts the poller unless it is already running. */
  start(): void {
    if (!this.#isRunning && !this.#isClosed) this.#running = this.#run()
  }

  /** Ends the current pause. If a poll is in flight, the next poll starts without a pause. */
  wake(): void {
    this.#wakeup.signal()
  }

  /** Stops the poller. Resolves when the poll that is in flight has finished. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#wakeup.signal()
    await this.#running
  }

  async #run(): Promise<void> {
    const { pauseMs, pausesFirst = false } = this.#polling
    let failures = 0
    let polls = 0
    this.#isRunning = true
    if (pausesFirst) await this.#wakeup.wait(pauseMs(0, 0))
    while (this.#isNeeded) {
      this.#wakeup.clear()
      try {
        await this.#polling.poll()
        failures = 0
        this.failure = undefined
      } catch (error) {
        failures++
        this.failure = { error }
        if (!isRetryable(error) && !this.#isClosed) this.#polling.onError?.(error)
      }
      if (this.#isNeeded && (await this.#wakeup.wait(pauseMs(failures, polls++)))) polls = 0
    }
    // There must be no `await` between reading `isNeeded` and this line, because a `start` in between would be lost.
    this.#isRunning = false
    this.failure = undefined
  }

  get #isNeeded(): boolean {
    return !this.#isClosed && this.#polling.isNeeded()
  }
}
