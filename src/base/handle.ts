import { ClosedError, type HoldfastError } from './errors.js'

/**
 * Base class of everything that can be held: locks, leases, permits and leaderships. `held` reads the clock on each access. Its
 * value is therefore correct even immediately after a frozen process resumes or a blocked event loop continues, before any timer or socket
 * event fires.
 *
 * ```text
 * held ──► released
 *   └────► lost (`signal` aborts once, with the reason)
 * ```
 */
export abstract class Handle {
  #controller: AbortController | undefined
  #loss: HoldfastError | undefined
  #releaseRequest: HoldfastError | undefined
  #released: Promise<void> | undefined
  readonly #grantedAt = performance.now()

  abstract get name(): string

  /** Fencing token: larger than the fence of every earlier holder. */
  abstract get fence(): number

  /** Whether the holder may rely on this handle now. */
  get held(): boolean {
    return this.#released === undefined && this.loss === undefined
  }

  /**
   * Aborts when the handle is lost or when its release is requested. If the handle is lost, the signal aborts before any other holder can
   * acquire the name. The signal's reason shows which of the two happened.
   */
  get signal(): AbortSignal {
    // Created on first use, because most handles are held only briefly and their signal is never read.
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#releaseRequest) this.#controller.abort(this.#releaseRequest)
    }
    // Detects a deadline that has passed while the process was blocked.
    const { loss } = this
    if (loss) this.#controller.abort(loss)
    return this.#controller.signal
  }

  /** Releases the handle. Resolves when the server has released the name. May be called more than once, and after a loss. */
  release(): Promise<void> {
    if (this.#released) return this.#released
    // A loss before the release is reported. A loss after the release is ignored.
    const { loss } = this
    if (loss) this.lose(loss)
    else if (!this.#loss) this.reportEnd(performance.now() - this.#grantedAt, undefined, this.#releaseRequest)
    this.#released = this.releaseOnServer()
    return this.#released
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  /** @internal Throws the loss error if the handle has been lost. */
  throwIfLost(): void {
    const { loss } = this
    if (loss) throw loss
  }

  /** @internal Whether `release` was called. */
  protected get isReleased(): boolean {
    return this.#released !== undefined
  }

  /** @internal The reason why the holder may no longer rely on this handle. */
  protected get loss(): HoldfastError | undefined {
    if (this.#loss || this.#released) return this.#loss
    return this.currentLoss()
  }

  /** @internal Marks the handle as lost. Only the first reason is kept. */
  protected lose(reason: HoldfastError): void {
    if (this.#loss || this.#released) return
    this.#loss = reason
    this.#controller?.abort(reason)
    // A handle that ends because the instance was closed or because its token was released is not a loss.
    const { cause } = reason
    const heldMs = performance.now() - this.#grantedAt
    if (cause instanceof ClosedError) this.reportEnd(heldMs, undefined, cause)
    else this.reportEnd(heldMs, reason, undefined)
  }

  /** @internal Requests a release. The handle remains held until its holder releases it. */
  protected requestRelease(reason: HoldfastError): void {
    this.#releaseRequest ??= reason
    this.#controller?.abort(reason)
  }

  /** @internal Returns the loss if the holder can no longer rely on the session, presence or lease behind the handle. */
  protected abstract currentLoss(): HoldfastError | undefined

  /** @internal Emits the event for a loss or a release. Called once. */
  protected abstract reportEnd(heldMs: number, lost: HoldfastError | undefined, releaseRequest: Error | undefined): void

  /** @internal Called once. */
  protected abstract releaseOnServer(): Promise<void>
}

/**
 * Runs `work` while the handle is held, then always releases the handle. Throws the loss error if the handle was lost
 * before `work` finished, because another holder may have worked at the same time.
 */
export async function whileHeld<T>(handle: Handle, work: () => Promise<T> | T): Promise<T> {
  try {
    const result = await work()
    handle.throwIfLost()
    return result
  } finally {
    await handle.release()
  }
}
