import type { Attempts } from './attempts.js'
import type { Endings } from './endings.js'

interface PaceOptions {
  readonly attempts: Attempts
  readonly endings: Endings
  readonly concurrency: number
  /** Number of jobs per slot: the batch size. */
  readonly batchSize: number
}

const maxPerClaim = 1_000
/** A worker claims at most as many jobs in advance as it finishes in this time. */
const aheadMs = 40
export const maxAhead = 4_000
/** Maximum number of unrecorded outcomes. Above this number, the worker claims nothing. */
const maxUnrecorded = 10_000
const rateEveryMs = 20

/**
 * Decides how many jobs a worker claims: enough for its free slots, plus the jobs that it recently finished in 40 ms.
 * After an idle period it starts with a small claim. The limit grows fourfold with each full claim.
 */
export class Pace {
  readonly #options: PaceOptions
  #rate = 0
  #rateFrom = performance.now()
  #ahead = 0
  #ramp: number

  constructor(options: PaceOptions) {
    this.#options = options
    this.#ramp = options.batchSize
  }

  /** Maximum number of jobs to claim in advance at the current rate. */
  get ahead(): number {
    return this.#ahead
  }

  /** Number of jobs to claim now. Returns 0 if it is better to wait for a larger claim. */
  claimCount(): number {
    const { attempts, endings, concurrency, batchSize } = this.#options
    const now = performance.now()
    if (now - this.#rateFrom >= rateEveryMs) {
      const current = attempts.finished / (now - this.#rateFrom)
      this.#rate = current > this.#rate ? current : this.#rate * 0.7 + current * 0.3
      attempts.finished = 0
      this.#rateFrom = now
    }
    if (endings.unrecorded > maxUnrecorded) return 0
    this.#ahead = Math.min(maxAhead, Math.floor(this.#rate * aheadMs))
    const want = concurrency * batchSize + this.#ahead - attempts.running - attempts.queued
    const few = Math.min(maxPerClaim, Math.max(1, Math.floor(this.#ahead / 2)))
    return want >= few ? Math.min(want, maxPerClaim) : 0
  }

  /** Limits the requested number of jobs to the current ramp. */
  atOnce(want: number): number {
    return Math.min(want, this.#ramp)
  }

  /** Raises the ramp after a full claim. */
  onClaimed(jobs: number): void {
    if (jobs >= this.#ramp) this.#ramp = Math.min(maxPerClaim, this.#ramp * 4)
  }

  /** Restarts the ramp after an idle period or a failure. */
  reset(): void {
    this.#ramp = this.#options.batchSize
  }
}
