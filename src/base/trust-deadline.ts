import { formatDuration } from './durations.js'
import type { HoldfastError } from './errors.js'

/** Timer delay that shows that the event loop did not run. */
const blockedMs = 250

/**
 * Tracks whether the client may still rely on a session, a presence or a lease. The server revokes each of these after a time without
 * contact. The client stops relying on it before the server can grant the same thing to another client.
 *
 *     client   sends ────────── deadline passes ──┐ (listeners are notified)
 *     server        └─ executes ──────────────────┼──── expiry: the server may grant it to another client
 *
 * The client measures from the time when it *sent* the last statement that received a response. The server measures from the later
 * execution of that statement. The server's period is also longer by a margin, which the subclass subtracts. The two clocks are never
 * compared; only their rates must agree within the margin.
 *
 * `trusted` reads the clock on each access. Therefore its value is correct even after the process was frozen or its event loop was blocked,
 * before any timer has fired. The first read after the deadline notifies the listeners.
 *
 * The state changes once, and the new state is final:
 *
 *     trusted ──► lost    the deadline passed, or `lose` was called; the listeners are notified
 *     trusted ──► ended   `end` was called; the listeners are not notified
 */
export abstract class TrustDeadline {
  #trustedUntil: number
  #loss: HoldfastError | undefined
  #hasEnded = false
  #timer: NodeJS.Timeout | undefined
  #listeners: Set<(reason: HoldfastError) => void> | undefined

  constructor(sentAt: number, trustMs: number) {
    this.#trustedUntil = sentAt + trustMs
  }

  /** Whether the client may still rely on the session, presence or lease. */
  get trusted(): boolean {
    if (this.#loss !== undefined || this.#hasEnded) return false
    const lateMs = performance.now() - this.#trustedUntil
    if (lateMs < 0) return true
    this.lose(this.lossByDeadline(lateMs))
    return false
  }

  /** The reason for the loss. Undefined before a loss, and after `end`. */
  get loss(): HoldfastError | undefined {
    return this.trusted ? undefined : this.#loss
  }

  get trustedUntil(): number {
    return this.#trustedUntil
  }

  /** Calls the listener once, when the session, presence or lease is lost. Returns a function that removes the listener. */
  onLoss(listener: (reason: HoldfastError) => void): () => void {
    this.#listeners ??= new Set()
    const listeners = this.#listeners.add(listener)
    return () => listeners.delete(listener)
  }

  /** Marks the session, presence or lease as lost. Only the first reason is kept. */
  lose(reason: HoldfastError): void {
    if (this.#loss !== undefined || this.#hasEnded) return
    this.#loss = reason
    clearTimeout(this.#timer)
    this.onLost(reason)
    if (this.#listeners) for (const listener of this.#listeners) listener(reason)
  }

  /** Ends the tracking without notifying the listeners. */
  end(): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
  }

  /**
   * Extends the deadline after the response to a statement that was sent at `sentAt`. Responses may arrive in any order. Returns false if
   * the deadline has already passed. The server may then have granted the same thing to another client, so the loss is final.
   */
  protected answered(sentAt: number, trustMs: number): boolean {
    if (!this.trusted) return false
    this.#trustedUntil = Math.max(this.#trustedUntil, sentAt + trustMs)
    return true
  }

  /** Starts a timer that detects the deadline even if no code reads `trusted`. */
  protected watchDeadline(): void {
    this.#timer = setTimeout(() => {
      if (this.trusted) this.watchDeadline()
    }, this.#trustedUntil - performance.now())
  }

  /** Returns the error to report as the loss if the deadline passed `lateMs` ago. */
  protected abstract lossByDeadline(lateMs: number): HoldfastError

  /**
   * Returns a sentence that explains why a loss was detected `lateMs` after the deadline. The timer detects the
   * deadline immediately, unless the event loop is blocked. Returns an empty string if the loss was detected in time.
   */
  protected blockedText(lateMs: number): string {
    if (this.#timer === undefined || lateMs < blockedMs) return ''
    return `. The event loop of this process was blocked for at least ${formatDuration(lateMs)}, or the process was suspended`
  }

  /** Called once, before the listeners. */
  protected onLost(_reason: HoldfastError): void {}
}
