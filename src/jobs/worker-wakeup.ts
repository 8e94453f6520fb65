import { pause } from '../base/index.js'

/**
 * Ends a worker's pauses. `signal` ends each pause. `signalRoom` ends a pause only if the worker is waiting for room
 * and there is room.
 */
export class WorkerWakeup {
  /** Whether `signal` has been called since the worker last reset this flag. */
  isSignaled = false
  #pausing: AbortController | undefined
  #hasRoom: (() => boolean) | undefined

  signal(): void {
    this.isSignaled = true
    this.#endPause()
  }

  /** Called for each attempt that ends. Does nothing while the worker is not waiting for room. */
  signalRoom(): void {
    if (this.#hasRoom?.()) this.#endPause()
  }

  /** Pauses for at most `ms` milliseconds. With `hasRoom`, the pause also waits for room. */
  async wait(ms: number, hasRoom?: () => boolean): Promise<void> {
    this.#pausing = new AbortController()
    this.#hasRoom = hasRoom
    await pause(ms, this.#pausing.signal)
    this.#pausing = undefined
    this.#hasRoom = undefined
  }

  #endPause(): void {
    // Clears the condition, so that only one `abort` is called even if many attempts end before the worker continues.
    // Each `abort` creates an error.
    this.#hasRoom = undefined
    this.#pausing?.abort()
  }
}
