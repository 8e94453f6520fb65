import { formatDuration } from '../base/index.js'
import { DatabaseUnreachableError } from './errors.js'

/** Time within which a connection must respond to a statement. Otherwise the connection is discarded. */
export const responseTimeoutMs = 5_000
/** Time after which a statement that received no response is expected to have taken effect, or never to do so. */
export const lateEffectMs = 60_000
/** Shorter timeout for a closing instance in which a statement has already timed out. */
const shortTimeoutMs = 500

/** Limits the wait for responses from one database. */
export class ResponseTimeout {
  #isShortened = false
  #isSilent = false

  /** Call this method when the instance closes. After one timeout, further statements have a shorter timeout. */
  shorten(): void {
    this.#isShortened = true
  }

  /**
   * Returns the result of `send`, or throws a `DatabaseUnreachableError` if there is no response in time. The statement may still be
   * executed. `send` receives the timeout for the driver. The driver's timeout begins only when the driver has a connection.
   */
  run<T>(withinMs: number, send: (ms: number) => Promise<T>): Promise<T> {
    const ms = this.#isShortened && this.#isSilent ? Math.min(withinMs, shortTimeoutMs) : withinMs
    const deadlineMs = this.#isShortened ? ms : 2 * ms
    return new Promise((resolve, reject) => {
      const fail = (error: unknown) => {
        clearTimeout(timer)
        this.#isSilent = error instanceof DatabaseUnreachableError
        reject(error)
      }
      const timer = setTimeout(() => {
        fail(new DatabaseUnreachableError(`No response within ${formatDuration(deadlineMs)}`))
      }, deadlineMs)
      send(ms).then((result) => {
        clearTimeout(timer)
        this.#isSilent = false
        resolve(result)
      }, fail)
    })
  }
}
