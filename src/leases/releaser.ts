import { retryUntilRecorded } from '../base/index.js'
import { holdIdOf } from './renewals.js'
import type { LeaseRequest, LeaseStore, ReleaseRequest } from './store.js'

/** With less time left until the expiry, another try is not worth it. */
const minLeftMs = 50

/** Gives back; one thing at a time for one token: a release under way must not strike what the same token acquires behind it. */
export class LeaseReleaser {
  readonly #store: LeaseStore
  readonly #closing: AbortSignal
  readonly #onReleased: (key: string) => void
  readonly #pending = new Map<string, Promise<void>>()

  constructor(store: LeaseStore, closing: AbortSignal, onReleased: (key: string) => void) {
    this.#store = store
    this.#closing = closing
    this.#onReleased = onReleased
  }

  /** Once; whether it was still the holder's. */
  async release(release: ReleaseRequest): Promise<boolean> {
    const releasing = this.#store.release(release)
    this.track(holdIdOf(release.key, release.token), releasing)
    const released = await releasing
    if (released) this.#onReleased(release.key)
    return released
  }

  /** Until it is released, or its time is over anyway. */
  releaseReliably({
    key,
    token,
    fence,
    ttlMs,
  }: Omit<ReleaseRequest, 'key'> & Pick<LeaseRequest, 'key' | 'ttlMs'>): Promise<void> {
    const releasing = this.#releaseWithRetries({ key: key.key, token, fence }, performance.now() + ttlMs)
    this.track(holdIdOf(key.key, token), releasing)
    return releasing
  }

  /** This is under way for a token. */
  track(id: string, work: Promise<unknown>): void {
    const over = Promise.allSettled([work, this.#pending.get(id)]).then(() => {
      if (this.#pending.get(id) === over) this.#pending.delete(id)
    })
    this.#pending.set(id, over)
  }

  /** What is under way for a token. Whoever has waited for it asks again: another may have been quicker. */
  pending(id: string): Promise<void> | undefined {
    return this.#pending.get(id)
  }

  async #releaseWithRetries(release: ReleaseRequest, until: number): Promise<void> {
    const tryOnce = async () => {
      await this.#store.release(release)
      this.#onReleased(release.key)
    }
    await retryUntilRecorded(this.#closing, tryOnce, () => {
      const leftMs = until - performance.now()
      return this.#closing.aborted || leftMs < minLeftMs ? undefined : Math.min(leftMs, 2_000)
    })
  }
}
