import { backoffMs, type HoldfastError, pause, saysAborted } from '../base/index.js'
import type { Owned } from './owned.js'

const runAgainAfterMs = 1_000
const longestFailurePauseMs = 60_000

/** One resource that this instance owns, until it is lost or let go and the function has ended. */
export class Task {
  readonly ended: Promise<void>

  constructor(
    readonly owned: Owned,
    work: (resource: string, owned: Owned) => unknown,
    report: (error: unknown) => void,
  ) {
    this.ended = this.#run(work, report)
  }

  letGo(reason: HoldfastError): void {
    this.owned.letGo(reason)
  }

  /** A function that returns, or throws, is run again: what is owned is never left lying. */
  async #run(work: (resource: string, owned: Owned) => unknown, report: (error: unknown) => void): Promise<void> {
    const { owned } = this
    let failures = 0
    while (!owned.signal.aborted) {
      const from = performance.now()
      let pauseMs = runAgainAfterMs
      try {
        await work(owned.resource, owned)
        failures = 0
      } catch (error) {
        if (saysAborted(owned.signal, error)) break
        if (performance.now() - from > longestFailurePauseMs) failures = 0
        pauseMs = backoffMs(failures++, 2 * runAgainAfterMs, longestFailurePauseMs)
        report(error)
      }
      if (!owned.signal.aborted) await pause(pauseMs, owned.signal)
    }
    await owned.end()
  }
}
