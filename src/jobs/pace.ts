import type { Attempts } from './attempts.js'
import type { Endings } from './endings.js'

interface PaceOptions {
  readonly attempts: Attempts
  readonly endings: Endings
  /** Number of jobs per slot, which is the batch size. */
  readonly batchSize: number
}

const maxPerClaim = 1_000
/** A worker claims at most as many jobs in advance as it finishes within this time. */
const aheadMs = 40
const maxAhead = 4_000
/** Maximum number of unrecorded outcomes. Above this number, the worker claims no jobs. */
const maxUnrecorded = 10_000
const rateEveryMs = 20

/**
 * Decides how many jobs a worker claims. The worker claims jobs for its free slots, and in advance as many jobs as it
 * currently finishes within 40 ms. After an idle period, the worker starts with a small claim. Each full claim
 * quadruples the limit.
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

  /**
   * Returns the number of jobs to claim now, if `arriving` jobs have been claimed and not accepted yet. Returns 0 if the
   * worker should wait until it can make a larger claim.
   */
  claimCount(arriving: number): number {
    const { attempts, endings, batchSize } = this.#options
    const now = performance.now()
    if (now - this.#rateFrom >= rateEveryMs) {
      const current = attempts.finished / (now - this.#rateFrom)
      this.#rate = current > this.#rate ? current : this.#rate * 0.7 + current * 0.3
      attempts.finished = 0
      this.#rateFrom = now
    }
    if (endings.unrecorded > maxUnrecorded) return 0
    this.#ahead = Math.min(maxAhead, Math.floor(this.#rate * aheadMs))
    const want = attempts.room(batchSize) + this.#ahead - arriving
    const few = Math.min(maxPerClaim, Math.max(1, Math.floor(this.#ahead / 2)))
    return want >= few ? Math.min(want, maxPerClaim) : 0
  }

  /** Limits the number of jobs per claim while the worker is ramping up after an idle period. */
  atOnce(want: number): number {
    return Math.min(want, this.#ramp)
  }

  /** Raises the ramp-up limit after a full claim. */
  onClaimed(jobs: number): void {
    if (jobs >= this.#ramp) this.#ramp = Math.min(maxPerClaim, this.#ramp * 4)
  }

  /** Resets the ramp-up limit after an idle period or a failure. */
  reset(): void {
    this.#ramp = this.#options.batchSize
  }
}
