import type { HoldfastError, Key } from '../base/index.js'
import { formatDuration } from '../base/index.js'
import { DatabaseUnreachableError } from '../postgres/index.js'

/**
 * One grant of a name by lease, as this process believes in it. The belief is counted from the send of the last
 * acquisition or renewal that was answered, and ends a margin before the database could let the lease expire: that
 * counts from when it executed the statement, which was after the send. Only the rates of two clocks must agree, to
 * within the margin.
 */
export class Holding {
  /** Whoever relies on it; several when one token acquired several times. */
  readonly watchers = new Set<(reason: HoldfastError) => void>()
  /** When the next renewal is due. */
  renewAt: number
  #trustedUntil: number
  /** When the statement was sent by which the belief is counted. */
  #countedFrom: number
  #loss: HoldfastError | undefined

  constructor(
    readonly key: Key,
    readonly token: string,
    readonly fence: number,
    public ttlMs: number,
    sentAt: number,
  ) {
    this.#countedFrom = sentAt
    this.#trustedUntil = sentAt + trustMs(ttlMs)
    this.renewAt = sentAt + ttlMs * renewAfter
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

  /** The database has answered a renewal that was sent at `sentAt`. */
  renewed(ttlMs: number, sentAt: number): void {
    // An answer that was overtaken by that of a later statement says nothing any more.
    if (!this.trusted || sentAt < this.#countedFrom) return
    this.#countedFrom = sentAt
    this.ttlMs = ttlMs
    this.#trustedUntil = sentAt + trustMs(ttlMs)
    this.renewAt = sentAt + ttlMs * renewAfter
  }

  /** A statement is about to be sent that may shorten its life: from then on nothing longer can be believed. */
  mayShorten(ttlMs: number, sentAt: number): void {
    if (ttlMs >= this.ttlMs) return
    this.#countedFrom = sentAt
    this.#trustedUntil = Math.min(this.#trustedUntil, sentAt + trustMs(ttlMs))
  }

  lose(reason: HoldfastError): void {
    if (this.#loss) return
    this.#loss = reason
    for (const watcher of [...this.watchers]) watcher(reason)
  }
}

/** A lease renews itself at a third of its life, so that two renewals may fail before it is lost. */
const renewAfter = 1 / 3

function trustMs(ttlMs: number): number {
  return ttlMs - Math.max(100, ttlMs * 0.1)
}
