import { retryUntilRecorded } from '../base/index.js'
import type { Ask, Ledger, Release } from './ledger.js'
import { idOf } from './renewals.js'

/** With less time left until the expiry, another try is not worth it. */
const minLeftMs = 50

/** Gives back; one thing at a time for one token: a release under way must not strike what the same token acquires behind it. */
export class Releasing {
  readonly #ledger: Ledger
  readonly #closing: AbortSignal
  readonly #onReleased: (key: string) => void
  readonly #underWay = new Map<string, Promise<void>>()

  constructor(ledger: Ledger, closing: AbortSignal, onReleased: (key: string) => void) {
    this.#ledger = ledger
    this.#closing = closing
    this.#onReleased = onReleased
  }

  /** Once; whether it was still the holder's. */
  async once(release: Release): Promise<boolean> {
    const releasing = this.#ledger.release(release)
    this.mark(idOf(release.key, release.token), releasing)
    const released = await releasing
    if (released) this.#onReleased(release.key)
    return released
  }

  /** Until it is released, or its time is over anyway. */
  surely({ key, token, fence, ttlMs }: Omit<Release, 'key'> & Pick<Ask, 'key' | 'ttlMs'>): Promise<void> {
    const releasing = this.#try({ key: key.key, token, fence }, performance.now() + ttlMs)
    this.mark(idOf(key.key, token), releasing)
    return releasing
  }

  /** This is under way for a token. */
  mark(id: string, work: Promise<unknown>): void {
    const over = Promise.allSettled([work, this.#underWay.get(id)]).then(() => {
      if (this.#underWay.get(id) === over) this.#underWay.delete(id)
    })
    this.#underWay.set(id, over)
  }

  /** What is under way for a token. Whoever has waited for it asks again: another may have been quicker. */
  underWay(id: string): Promise<void> | undefined {
    return this.#underWay.get(id)
  }

  async #try(release: Release, until: number): Promise<void> {
    const tryOnce = async () => {
      await this.#ledger.release(release)
      this.#onReleased(release.key)
    }
    await retryUntilRecorded(this.#closing, tryOnce, () => {
      const leftMs = until - performance.now()
      return this.#closing.aborted || leftMs < minLeftMs ? undefined : Math.min(leftMs, 2_000)
    })
  }
}
