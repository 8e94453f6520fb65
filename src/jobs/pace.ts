import type { Attempts } from './attempts.js'
import type { Claims } from './claims.js'
import type { Endings } from './endings.js'

interface PaceOptions {
  readonly attempts: Attempts
  readonly endings: Endings
  readonly claims: Claims
  readonly concurrency: number
  /** How many jobs a place takes: those of a batch. */
  readonly batchSize: number
}

const maxPerClaim = 1_000
/** Jobs that a worker has claimed ahead are at most what it does in this time. */
const aheadMs = 40
export const maxAhead = 4_000
/** While so many ends are not recorded yet, nothing more is claimed. */
const maxUnrecorded = 10_000
const rateEveryMs = 20

/**
 * How many jobs a worker claims: for the places that are free, and ahead of that what it did lately in some hundredths of a
 * second. After a rest it begins with few, and takes four times as many with each claim that is full.
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

  /** How many jobs it may have claimed ahead, at the pace of late. */
  get ahead(): number {
    return this.#ahead
  }

  /** How many jobs to claim now; none while a later claim would be a larger one. */
  claimCount(): number {
    const { attempts, endings, claims, concurrency, batchSize } = this.#options
    const now = performance.now()
    if (now - this.#rateFrom >= rateEveryMs) {
      const current = attempts.finished / (now - this.#rateFrom)
      this.#rate = current > this.#rate ? current : this.#rate * 0.7 + current * 0.3
      attempts.finished = 0
      this.#rateFrom = now
    }
    if (endings.unrecorded > maxUnrecorded) return 0
    this.#ahead = Math.min(maxAhead, Math.floor(this.#rate * aheadMs), Math.floor(claims.maxClaimed / 2))
    const free = concurrency * batchSize + this.#ahead - attempts.running - attempts.queued
    const want = Math.min(free, claims.room)
    const few = Math.min(maxPerClaim, Math.max(1, Math.floor(this.#ahead / 2)))
    return want >= few ? Math.min(want, maxPerClaim) : 0
  }

  /** How many of those that are wanted one claim may take by now. */
  atOnce(want: number): number {
    return Math.min(want, this.#ramp)
  }

  /** A claim took so many. */
  onClaimed(jobs: number): void {
    if (jobs >= this.#ramp) this.#ramp = Math.min(maxPerClaim, this.#ramp * 4)
  }

  /** It has rested, or has failed: perhaps that was too much at once. */
  reset(): void {
    this.#ramp = this.#options.batchSize
  }
}
