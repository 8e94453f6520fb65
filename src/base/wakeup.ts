import { pause } from './abort.js'

/** Pauses a polling loop. A signal ends the pause. A signal during a poll skips the next pause. */
export class Wakeup {
  #isSignaled = false
  #waiting: AbortController | undefined

  signal(): void {
    this.#isSignaled = true
    this.#waiting?.abort()
  }

  /** Call this method before each poll. The poll finds everything that was signaled before it. */
  clear(): void {
    this.#isSignaled = false
  }

  /** Waits for `ms` milliseconds or until a signal. Returns whether there was a signal. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isSignaled) {
      this.#waiting = new AbortController()
      await pause(ms, this.#waiting.signal)
      this.#waiting = undefined
    }
    return this.#isSignaled
  }
}
