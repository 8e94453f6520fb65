import type { HoldfastError } from './errors.js'

/**
 * Trust in something that the server revokes after a time without contact: a session, a presence, a lease. The client gives up its
 * trust before the server can grant the same thing to anyone else.
 *
 *     client   sends ─────────────── trust ends ──┐ (listeners are notified)
 *     server        └─ executes ──────────────────┼──── expiry: the server may grant it to another client
 *
 * The client counts from the *send* of the last statement that received a response. The server counts from the later execution of that
 * statement, and its time is longer by a margin, which the subclass subtracts. The two clocks are never compared. Only their rates must
 * agree, within the margin.
 *
 * `trusted` reads the clock each time. Therefore its value is correct even after the process was frozen or its event loop was blocked,
 * before any timer has fired. The first read after the deadline notifies the listeners.
 *
 *     trusted → lost (deadline, or `lose`) or ended (by its owner, without notice). Both are final.
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

  /** Whether the client still trusts the session, presence or lease. */
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

  /** Calls the listener once, when trust is lost. Returns a function that stops listening. */
  onLoss(listener: (reason: HoldfastError) => void): () => void {
    this.#listeners ??= new Set()
    const listeners = this.#listeners.add(listener)
    return () => listeners.delete(listener)
  }

  /** Declares the loss. Only the first reason counts. */
  lose(reason: HoldfastError): void {
    if (this.#loss !== undefined || this.#hasEnded) return
    this.#loss = reason
    clearTimeout(this.#timer)
    this.onLost(reason)
    if (this.#listeners) for (const listener of this.#listeners) listener(reason)
  }

  /** Ends the trust without notifying the listeners. */
  end(): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
  }

  /**
   * Extends the trust after the response to a statement that was sent at `sentAt`. Responses may arrive in any order. Returns false after
   * the deadline. The server may have granted the same thing to another client by then, so trust is not restored.
   */
  protected answered(sentAt: number, trustMs: number): boolean {
    if (!this.trusted) return false
    this.#trustedUntil = Math.max(this.#trustedUntil, sentAt + trustMs)
    return true
  }

  /** Starts a timer that notices the deadline even if no code reads `trusted`. */
  protected watchDeadline(): void {
    this.#timer = setTimeout(() => {
      if (this.trusted) this.watchDeadline()
    }, this.#trustedUntil - performance.now())
  }

  /** The loss to report `lateMs` after the deadline. */
  protected abstract lossByDeadline(lateMs: number): HoldfastError

  /** Called once, before the listeners. */
  protected onLost(_reason: HoldfastError): void {}
}
