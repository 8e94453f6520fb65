import { whenAborted } from '../base/index.js'
import type { CallerTransaction, Kept } from '../postgres/index.js'

/**
 * A resource that this instance has for itself, as the function that works on it is told.
 *
 * @example
 * await holdfast.shares.each('cities', cities, async (city, { signal, fence }) => draw(city, { signal, fence }))
 */
export class Owned {
  readonly resource: string
  /** Larger than that of whoever had the resource before. */
  readonly fence: number
  readonly #kept: Kept
  readonly #controller = new AbortController()
  readonly #forgets: (() => void)[]

  /**
   * Refuses (`StaleFenceError`) the writes of this transaction if somebody else may have the resource: call it in the
   * transaction, before its commit.
   */
  readonly guard = (tx: CallerTransaction): Promise<void> => this.#kept.guard(tx)

  /** @internal */
  constructor(resource: string, kept: Kept, callerSignal?: AbortSignal) {
    this.resource = resource
    this.fence = kept.fence
    this.#kept = kept
    this.#forgets = [kept.signal, callerSignal].map((signal) => whenAborted(signal, (reason) => this.letGo(reason)))
  }

  /** Whether this instance has the resource at this very moment, also right after it was frozen or its event loop blocked. */
  get held(): boolean {
    return this.#kept.held
  }

  /** Aborts when the resource is lost, before anybody else can have it; or when it is to be let go. The reason says which. */
  get signal(): AbortSignal {
    // Notices a deadline that has passed while nothing could run.
    if (!this.#kept.held && this.#kept.signal.aborted) this.letGo(this.#kept.signal.reason)
    return this.#controller.signal
  }

  /** @internal */
  letGo(reason: unknown): void {
    this.#controller.abort(reason)
  }

  /** @internal The work has ended: gives the resource back. */
  async end(): Promise<void> {
    for (const forget of this.#forgets) forget()
    await this.#kept.release()
  }
}

/**
 * The name that whoever has a resource holds: `share/<share>/<resource>`. A slash in the name of the share is written
 * `%2F`, so that the resources of two shares never have one name.
 */
export function resourceName(share: string, resource: string): string {
  return `share/${share.replaceAll('%', '%25').replaceAll('/', '%2F')}/${resource}`
}
