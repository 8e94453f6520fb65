import { ClosedError } from './errors.js'

/** Maximum number of calls under way that keep their stack. Keeping a stack costs some µs. */
const maxTraced = 16

/**
 * The calls of the user that a room works on. When the room closes, each call that still waits rejects with a `ClosedError` of its
 * own: it names the call, and its stack leads to the line that made the call. Where a program forgets an `await` before `close()`,
 * that is an unhandled rejection, and only this error shows which call it was.
 */
export class Calls {
  readonly #closing = new AbortController()
  readonly #writes = new Set<Promise<unknown>>()
  #inFlight = 0

  /** Aborts when the room closes. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Refuses calls from now on. Returns the reason with which those under way are to be cut off, which `run` makes their own. */
  close(): ClosedError {
    this.#closing.abort(new ClosedError('This instance'))
    return this.#closing.signal.reason
  }

  throwIfClosed(): void {
    // Not the reason itself: its stack leads to the call of close().
    if (this.#closing.signal.aborted) throw new ClosedError('This instance')
  }

  /** Runs a call, such as `locks.acquire` of a name. `of` names it for people. */
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
  /** Runs a call that writes something and waits for no other instance, such as jobs.enqueue. `written` waits for it. */
  write<T>(work: () => Promise<T>): Promise<T> {
    this.throwIfClosed()
    const writing = work()
    const forget = () => this.#writes.delete(writing)
    this.#writes.add(writing)
    writing.then(forget, forget)
    return writing
  }

  /** Resolves when the writes that are under way now have ended, so that closing loses no write that the program does not await. */
  async waitForWrites(): Promise<void> {
    // A call that was made in this turn may have to look at its arguments first.
    await new Promise(setImmediate)
    await Promise.allSettled(this.#writes)
  }
}
