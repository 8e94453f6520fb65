import { retryUntilRecorded } from '../base/index.js'
import { holdIdOf } from './renewals.js'
import type { LeaseRequest, LeaseStore, ReleaseRequest } from './store.js'

/** Minimum time left before the expiry for which a retry is worthwhile. */
const minLeftMs = 50

/**
 * Releases leases. An acquire waits for any pending release with the same token, because that release could otherwise
 * end the new grant.
 */
export class LeaseReleaser {
  readonly #pending = new Map<string, Promise<void>>()

  constructor(
    readonly store: LeaseStore,
    readonly closing: AbortSignal,
    readonly onReleased: (key: string) => void,
  ) {}

  /** Makes one attempt to release the lease. Returns whether the token still held the lease. */
  async release(release: ReleaseRequest): Promise<boolean> {
    const releasing = this.store.release(release)
    this.track(holdIdOf(release.key, release.token), releasing)
    const released = await releasing
    if (released) this.onReleased(release.key)
    return released
  }

  /** Retries until the lease is released or its TTL has passed. */
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

  /** Registers a pending operation on a lease token. */
  track(id: string, work: Promise<unknown>): void {
    const earlier = this.#pending.get(id)
    const forget = () => {
      if (this.#pending.get(id) === settled) this.#pending.delete(id)
    }
    const settled = (earlier ? Promise.allSettled([work, earlier]) : work).then(forget, forget)
    this.#pending.set(id, settled)
  }

  /**
   * Returns the pending operation on a token. After the operation has finished, call this method again, because another
   * operation may have started.
   */
  pending(id: string): Promise<void> | undefined {
    return this.#pending.get(id)
  }

  async #releaseWithRetries(release: ReleaseRequest, until: number): Promise<void> {
    const tryOnce = async () => {
      await this.store.release(release)
      this.onReleased(release.key)
    }
    await retryUntilRecorded(this.closing, tryOnce, () => {
      const leftMs = until - performance.now()
      return this.closing.aborted || leftMs < minLeftMs ? undefined : Math.min(leftMs, 2_000)
    })
  }
}
