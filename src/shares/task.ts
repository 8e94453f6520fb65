import { backoffMs, type HoldfastError, isAbortError, pause } from '../base/index.js'
import type { OwnedResource } from './owned-resource.js'

const runAgainAfterMs = 1_000
const maxFailurePauseMs = 60_000

/** One resource that this instance owns, until it is lost or let go and the function has ended. */
export class Task {
  readonly ended: Promise<void>
  /** Why the function pauses: it has thrown. */
  failure: { readonly error: unknown } | undefined

  constructor(
    readonly owned: OwnedResource,
    work: (resource: string, owned: OwnedResource) => unknown,
    report: (error: unknown) => void,
  ) {
    this.ended = this.#run(work, report)
  }

  requestRelease(reason: HoldfastError): void {
    this.owned.letGo(reason)
  }

  /** A function that returns, or throws, is run again: what is owned is never left lying. */
  async #run(
    work: (resource: string, owned: OwnedResource) => unknown,
    report: (error: unknown) => void,
  ): Promise<void> {
    const { owned } = this
    let failures = 0
    while (!owned.signal.aborted) {
      const from = performance.now()
      let pauseMs = runAgainAfterMs
      this.failure = undefined
      try {
        await work(owned.resource, owned)
        failures = 0
      } catch (error) {
        if (isAbortError(owned.signal, error)) break
        if (performance.now() - from > maxFailurePauseMs) failures = 0
        pauseMs = backoffMs(failures++, 2 * runAgainAfterMs, maxFailurePauseMs)
        this.failure = { error }
        report(error)
      }
      if (!owned.signal.aborted) await pause(pauseMs, owned.signal)
    }
    // Where it cannot be given back, it is free when the session or the lease that holds it is over.
    await owned.end().catch(report)
  }
}
