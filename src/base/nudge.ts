import { pause } from './abort.js'

/**
 * The pauses of a loop that looks every so often, and at once when there is something new to see: a nudge ends the pause, and one
 * that comes while the loop looks lets it not pause at all.
 */
export class Nudge {
  #isGiven = false
  #pausing: AbortController | undefined

  give(): void {
    this.#isGiven = true
    this.#pausing?.abort()
  }

  /** Before a look, which sees whatever the nudges so far were for. */
  heed(): void {
    this.#isGiven = false
  }

  /** Pauses for so long, or until it is nudged; says whether it was. */
  async pause(ms: number): Promise<boolean> {
    if (!this.#isGiven) {
      this.#pausing = new AbortController()
      await pause(ms, this.#pausing.signal)
      this.#pausing = undefined
    }
    return this.#isGiven
  }
}
