import { pause } from './abort.js'

/** Pauses a polling loop. A signal ends the pause. If a signal arrives during a poll, the loop skips the next pause. */
export class Wakeup {
  #isSignaled = false
  #waiting: AbortController | undefined

  signal(): void {
    this.#isSignaled = true
    this.#waiting?.abort()
  }

  /**
   * Clears the signals so far. Call this method before each poll, because the poll finds everything that was signaled
   * before it.
   */
  clear(): void {
    this.#isSignaled = false
  }

  /** Waits for `ms` milliseconds or until a signal arrives. Returns true if a signal arrived. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isSignaled) {
      this.#waiting = new AbortController()
      await pause(ms, this.#waiting.signal)
      this.#waiting = undefined
    }
    return this.#isSignaled
  }
}
