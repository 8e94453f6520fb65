import { formatDuration, type HoldfastError, type Key, TrustDeadline } from '../base/index.js'
import { DatabaseUnreachableError } from '../postgres/index.js'

/** Handle that is notified when its hold is lost or when its release is requested. */
export interface LeaseHoldWatcher {
  lost(reason: HoldfastError): void
  releaseRequested(reason: HoldfastError): void
}

/**
 * One grant of a lease, and the time until which this process may rely on the grant. Responses to renewals may arrive
 * in any order, because the database never shortens a lease. `Renewals` checks the deadlines of all holds with one
 * timer.
 */
export class LeaseHold extends TrustDeadline {
  /**
   * Handles that depend on this hold. There is more than one handle if the lease was acquired several times with the
   * same token.
   */
  readonly watchers = new Set<LeaseHoldWatcher>()
  renewalDueAt = 0
  /** Time from which this hold may be renewed early, in the same statement as another hold that is due. */
  earliestRenewalAt = 0

  constructor(
    readonly key: Key,
    readonly token: string,
    readonly fence: number,
    /** TTL to request at the next renewal. */
    public ttlMs: number,
    sentAt: number,
  ) {
    super(sentAt, trustMs(ttlMs))
    this.#scheduleRenewal(ttlMs, sentAt)
  }

  onRenewed(ttlMs: number, sentAt: number): void {
    if (this.answered(sentAt, trustMs(ttlMs))) this.#scheduleRenewal(ttlMs, sentAt)
  }

  /** Prevents a renewal before `at`, including an early renewal together with other holds. */
  postpone(at: number): void {
    this.renewalDueAt = at
    this.earliestRenewalAt = at
  }

  protected lossByDeadline(): HoldfastError {
    const after = formatDuration(this.ttlMs)
    return new DatabaseUnreachableError(
      `No renewal succeeded in time, and the lease expires ${after} after its last renewal`,
    )
  }

  protected override onLost(reason: HoldfastError): void {
    for (const watcher of [...this.watchers]) watcher.lost(reason)
  }

  #scheduleRenewal(ttlMs: number, sentAt: number): void {
    this.renewalDueAt = sentAt + ttlMs * renewAfterPart
    this.earliestRenewalAt = sentAt + ttlMs * earlyRenewalAfterPart
  }
}

/** Fraction of the TTL after which a lease is renewed. Two renewals may fail before the lease is lost. */
const renewAfterPart = 1 / 3
/** Fraction of the TTL after which a lease may be renewed early, together with another lease that is due. */
const earlyRenewalAfterPart = 1 / 6

function trustMs(ttlMs: number): number {
  return ttlMs - Math.max(100, ttlMs * 0.1)
}
