import { pause } from './abort.js'

/**
 * The pauses of a loop that looks every so often, and at once when there is something new to see: a nudge ends the pause, and one
 * that comes while the loop looks lets it not pause at all.
 */
export class Wakeup {
  #isSignaled = false
  #waiting: AbortController | undefined

  signal(): void {
    this.#isSignaled = true
    this.#waiting?.abort()
  }

  /** Before a look, which sees whatever the nudges so far were for. */
  clear(): void {
    this.#isSignaled = false
  }

  /** Pauses for so long, or until it is nudged; says whether it was. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isSignaled) {
      this.#waiting = new AbortController()
      await pause(ms, this.#waiting.signal)
      this.#waiting = undefined
    }
    return this.#isSignaled
  }
}
