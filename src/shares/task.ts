import { backoffMs, type HoldfastError, isAbortError, pause } from '../base/index.js'
import type { OwnedResource } from './owned-resource.js'

const runAgainAfterMs = 1_000
const maxFailurePauseMs = 60_000

type Work = (resource: string, owned: OwnedResource) => unknown

/**
 * Runs the function for one owned resource. Stops when the resource is lost, or when the resource must be released and
 * the function has ended.
 */
export class Task {
  readonly ended: Promise<void>
  /** Error from the last run. Set only while the task pauses before the next run. */
  failure: { readonly error: unknown } | undefined

  constructor(
    readonly owned: OwnedResource,
    work: Work,
    report: (error: unknown) => void,
  ) {
    this.ended = this.#run(work, report)
  }

  requestRelease(reason: HoldfastError): void {
    this.owned.letGo(reason)
  }

  /** Runs the function while the resource is owned. Starts it again after it has returned or thrown. */
  async #run(work: Work, report: (error: unknown) => void): Promise<void> {
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
    // If the release fails, the name becomes free when its session or lease ends.
    await owned.end().catch(report)
  }
}
