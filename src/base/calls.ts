import { ClosedError } from './errors.js'

/** Maximum number of calls in flight whose stack is captured. Capturing a stack takes a few µs. */
const maxTraced = 16

/**
 * Tracks the user's calls that are in flight in a room. When the room closes, each waiting call rejects with its own `ClosedError`, which
 * contains the name and the stack trace of the call. If a program forgets an `await` before `close()`, the rejection is unhandled, and only
 * this error shows which call was affected.
 */
export class Calls {
  readonly #closing = new AbortController()
  readonly #writes = new Set<Promise<unknown>>()
  #inFlight = 0

  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /**
   * Refuses further calls. Returns the error with which the room rejects calls in flight. `run` replaces this error with a separate error
   * for each call.
   */
  close(): ClosedError {
    this.#closing.abort(new ClosedError('This instance'))
    return this.#closing.signal.reason
  }

  throwIfClosed(): void {
    // The abort reason is not used here, because its stack trace shows close() and not the call.
    if (this.#closing.signal.aborted) throw new ClosedError('This instance')
  }

  /** Runs a call, such as `locks.acquire`. `of` returns the name that the error message shows. */
  async run<T>(call: string, of: () => string, work: () => Promise<T>): Promise<T> {
    this.throwIfClosed()
    const site: { stack?: string } = {}
    if (this.#inFlight < maxTraced) Error.captureStackTrace(site, this.run)
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

  /** Runs a call that writes and waits for no other instance, such as jobs.enqueue. `waitForWrites` waits for it. */
  write<T>(work: () => Promise<T>): Promise<T> {
    this.throwIfClosed()
    const writing = work()
    const forget = () => this.#writes.delete(writing)
    this.#writes.add(writing)
    writing.then(forget, forget)
    return writing
  }

  /** Resolves when all current writes have finished. Closing waits for this, so that no write is lost that the program did not await. */
  async waitForWrites(): Promise<void> {
    // A call from the same event-loop turn may still be checking its arguments.
    await new Promise(setImmediate)
    await Promise.allSettled(this.#writes)
  }
}
