import { formatDuration, type HoldfastError, type Key } from '../base/index.js'
import { DatabaseUnreachableError } from '../postgres/index.js'

/** Whoever relies on a holding and must be told about it. */
export interface HoldingWatcher {
  lost(reason: HoldfastError): void
  releaseRequested(reason: HoldfastError): void
}

/**
 * One grant of a name by lease, as this process believes in it. The belief is counted from the send of the last
 * acquisition or renewal that was answered, and ends a margin before the database could let the lease expire: that
 * counts from when it executed the statement, which was after the send. Only the rates of two clocks must agree, to
 * within the margin. The database never takes time back that it has granted, so answers may come in any order.
 */
export class Holding {
  /** Whoever relies on it; several when one token acquired several times. */
  readonly watchers = new Set<HoldingWatcher>()
  /** When the next renewal is due. */
  renewAt = 0
  /** From when on it may be renewed early, together with one that is due. */
  renewFrom = 0
  #trustedUntil = 0
  #loss: HoldfastError | undefined

  constructor(
    readonly key: Key,
    readonly token: string,
    readonly fence: number,
    /** For how long the next renewal asks. */
    public ttlMs: number,
    sentAt: number,
  ) {
    this.#count(ttlMs, sentAt)
  }

  /** Whether it may be believed in at this very moment. */
  get trusted(): boolean {
    if (this.#loss) return false
    if (performance.now() < this.#trustedUntil) return true
    this.lose(
      new DatabaseUnreachableError(
        `No renewal was answered in time, and it expires ${formatDuration(this.ttlMs)} after the last`,
      ),
    )
    return false
  }

  get loss(): HoldfastError | undefined {
    // Asking for trust notices a deadline that has passed.
    return this.trusted ? undefined : this.#loss
  }

  get trustedUntil(): number {
    return this.#trustedUntil
  }

  /** The database has answered a renewal for `ttlMs` that was sent at `sentAt`. */
  renewed(ttlMs: number, sentAt: number): void {
    if (this.trusted) this.#count(ttlMs, sentAt)
  }

  /** The next renewal is not to be sent before `at`, not even together with others. */
  postpone(at: number): void {
    this.renewAt = at
    this.renewFrom = at
  }

  lose(reason: HoldfastError): void {
    if (this.#loss) return
    this.#loss = reason
    for (const watcher of [...this.watchers]) watcher.lost(reason)
  }

  #count(ttlMs: number, sentAt: number): void {
    this.#trustedUntil = Math.max(this.#trustedUntil, sentAt + trustMs(ttlMs))
    this.renewAt = sentAt + ttlMs * renewAfter
    this.renewFrom = sentAt + ttlMs * togetherAfter
  }
}

/** A lease renews itself at a third of its life, so that two renewals may fail before it is lost. */
const renewAfter = 1 / 3
/** The part of its life after which a renewal may go out early, together with one that is due. */
const togetherAfter = 1 / 6

function trustMs(ttlMs: number): number {
  return ttlMs - Math.max(100, ttlMs * 0.1)
}
