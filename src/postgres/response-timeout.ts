import { formatDuration } from '../base/index.js'
import { DatabaseUnreachableError } from './errors.js'

/** A connection that does not answer a statement of ours for this long is given up. */
export const responseTimeoutMs = 5_000
/** The same in a hurry, after an answer has failed to come. */
const shortTimeoutMs = 500

/** How long the answers of one database are waited for. */
export class ResponseTimeout {
  #isShortened = false
  #isSilent = false

  /** Whoever closes does not wait for each answer anew, once one has failed to come. */
  shorten(): void {
    this.#isShortened = true
  }

  /**
   * The answer, or a `DatabaseUnreachableError` when it does not come in time: then it may still happen. `ask` is told how long
   * the driver may wait; its time begins when it has a connection, and one may not be free, or not be had.
   */
  async run<T>(withinMs: number, send: (ms: number) => Promise<T>): Promise<T> {
    const ms = this.#isShortened && this.#isSilent ? Math.min(withinMs, shortTimeoutMs) : withinMs
    try {
      const answer = await withinDeadline(send(ms), this.#isShortened ? ms : 2 * ms)
      this.#isSilent = false
      return answer
    } catch (error) {
      this.#isSilent = error instanceof DatabaseUnreachableError
      throw error
    }
  }
}

async function withinDeadline<T>(answer: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DatabaseUnreachableError(`No answer within ${formatDuration(ms)}`)), ms)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}
