import { pause } from './abort.js'

/** Pauses of a polling loop. A signal ends the pause. After a signal during a poll, the next pause is skipped. */
export class Wakeup {
  #isSignaled = false
  #waiting: AbortController | undefined

  signal(): void {
    this.#isSignaled = true
    this.#waiting?.abort()
  }

  /** Call before each poll: the poll sees everything that was signaled so far. */
  clear(): void {
    this.#isSignaled = false
  }

  /** Waits for `ms` or until a signal. Returns whether there was a signal. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isSignaled) {
      this.#waiting = new AbortController()
      await pause(ms, this.#waiting.signal)
      this.#waiting = undefined
    }
    return this.#isSignaled
  }
}
