import { formatDuration, type HoldfastError, type Key, TrustDeadline } from '../base/index.js'
import { DatabaseUnreachableError } from '../postgres/index.js'

/** Whoever relies on a holding and must be told about it. */
export interface LeaseHoldWatcher {
  lost(reason: HoldfastError): void
  releaseRequested(reason: HoldfastError): void
}

/**
 * One grant of a name by lease, as this process trusts it. The database never takes back time that it has granted, so renewals may
 * be answered in any order. `Renewals` watches the deadlines of all holdings with one timer.
 */
export class LeaseHold extends TrustDeadline {
  /** Whoever relies on it; several when one token acquired several times. */
  readonly watchers = new Set<LeaseHoldWatcher>()
  /** When the next renewal is due. */
  renewalDueAt = 0
  /** From when on it may be renewed early, together with one that is due. */
  earliestRenewalAt = 0

  constructor(
    readonly key: Key,
    readonly token: string,
    readonly fence: number,
    /** For how long the next renewal asks. */
    public ttlMs: number,
    sentAt: number,
  ) {
    super(sentAt, trustMs(ttlMs))
    this.#scheduleRenewal(ttlMs, sentAt)
  }

  /** The database has answered a renewal for `ttlMs` that was sent at `sentAt`. */
  onRenewed(ttlMs: number, sentAt: number): void {
    if (this.answered(sentAt, trustMs(ttlMs))) this.#scheduleRenewal(ttlMs, sentAt)
  }

  /** The next renewal is not to be sent before `at`, not even together with others. */
  postpone(at: number): void {
    this.renewalDueAt = at
    this.earliestRenewalAt = at
  }

  protected lossByDeadline(): HoldfastError {
    const after = formatDuration(this.ttlMs)
    return new DatabaseUnreachableError(`No renewal was answered in time, and it expires ${after} after the last`)
  }

  protected override onLost(reason: HoldfastError): void {
    for (const watcher of [...this.watchers]) watcher.lost(reason)
  }

  #scheduleRenewal(ttlMs: number, sentAt: number): void {
    this.renewalDueAt = sentAt + ttlMs * renewAfterPart
    this.earliestRenewalAt = sentAt + ttlMs * earlyRenewalAfterPart
  }
}

/** A lease renews itself at a third of its life, so that two renewals may fail before it is lost. */
const renewAfterPart = 1 / 3
/** The part of its life after which a renewal may go out early, together with one that is due. */
const earlyRenewalAfterPart = 1 / 6

function trustMs(ttlMs: number): number {
  return ttlMs - Math.max(100, ttlMs * 0.1)
}
