import { ClosedError } from './errors.js'

/** Maximum number of in-flight calls for which a stack trace is captured. Capturing a stack trace takes up to 15 µs. */
const maxTraced = 16

/**
 * Tracks the user's in-flight calls to a module. When the module closes, each in-flight call rejects with its own `ClosedError`, which
 * contains the call's name and, for a call that may wait, its stack trace. If a program calls `close()` without awaiting a call, the
 * rejection is unhandled, and only this error shows which call was affected.
 */
export class Calls {
  readonly #closing = new AbortController()
  readonly #writes = new Set<Promise<unknown>>()
  #inFlight = 0

  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /**
   * Rejects further calls. Returns the error with which the module rejects its in-flight calls. `run` replaces this error with a separate
   * error for each call.
   */
  close(): ClosedError {
    this.#closing.abort(new ClosedError('This instance'))
    return this.#closing.signal.reason
  }

  throwIfClosed(): void {
    // Throws a new error, because the abort reason's stack trace shows close() instead of the call.
    if (this.#closing.signal.aborted) throw new ClosedError('This instance')
  }

  /**
   * Runs a call, such as `locks.acquire`. `of` returns the name that the error message shows. `mayWait` is false for a
   * call that ends with the response to its statement.
   */
  async run<T>(call: string, of: () => string, mayWait: boolean, work: () => Promise<T>): Promise<T> {
    this.throwIfClosed()
    const site: { stack?: string } = {}
    if (mayWait && this.#inFlight < maxTraced) Error.captureStackTrace(site, this.run)
    this.#inFlight++
    try {
      return await work()
    } catch (error) {
      if (error !== this.#closing.signal.reason) throw error
      throw new ClosedError('This instance', { call: `${call} of "${of()}"`, stack: site.stack })
    } finally {
      this.#inFlight--
    }
  }

  /**
   * Runs a call that writes to the database without waiting for other instances, such as `jobs.enqueue`. `waitForWrites` waits for such
   * calls.
   */
  write<T>(work: () => Promise<T>): Promise<T> {
    this.throwIfClosed()
    const writing = work()
    const forget = () => this.#writes.delete(writing)
    this.#writes.add(writing)
    writing.then(forget, forget)
    return writing
  }

  /**
   * Resolves when all current writes have finished. Closing waits for these writes, because the program may not have awaited all of them.
   */
  async waitForWrites(): Promise<void> {
    // A call that started in the same event-loop turn may still be checking its arguments.
    await new Promise(setImmediate)
    await Promise.allSettled(this.#writes)
  }
}
