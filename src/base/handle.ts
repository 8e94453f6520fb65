import { ClosedError, type HoldfastError, UsageError } from './errors.js'
import { describe } from './user-values.js'

/**
 * What everything that can be held is to its holder: a lock, a lease, a permit, a leadership. Its trust is asked for at
 * the moment of the question, so that it is true to the clock even right after the process was frozen or its event loop
 * blocked, before any timer or socket could speak.
 *
 * ```text
 * held ──► released
 *   └────► lost (told by `signal`, once, with the reason)
 * ```
 */
export abstract class Handle {
  #controller: AbortController | undefined
  #loss: HoldfastError | undefined
  #releaseRequest: HoldfastError | undefined
  #released: Promise<void> | undefined
  readonly #grantedAt = performance.now()

  /** What is held, as the user calls it. */
  abstract get name(): string

  /** Larger than that of every earlier holder. */
  abstract get fence(): number

  /** Whether it may be believed in at this very moment. */
  get held(): boolean {
    return this.#released === undefined && this.loss === undefined
  }

  /** Aborts when it is lost, before anybody else can have it, or when its holder is asked to let go. The reason says which. */
  get signal(): AbortSignal {
    // Made when first asked for: most things are held for a moment and nobody looks.
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#releaseRequest) this.#controller.abort(this.#releaseRequest)
    }
    // Notices a deadline that has passed while nothing could run.
    const { loss } = this
    if (loss) this.#controller.abort(loss)
    return this.#controller.signal
  }

  /** Gives it back. Resolves when the server has done so; asking again, or after a loss, is harmless. */
  release(): Promise<void> {
    if (this.#released) return this.#released
    // A loss before the release is one for good; what happens afterwards is none.
    const { loss } = this
    if (loss) this.lose(loss)
    else if (!this.#loss) this.reportEnd(performance.now() - this.#grantedAt, undefined, this.#releaseRequest)
    this.#released = this.releaseOnServer()
    return this.#released
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  /** @internal Throws when it has been lost. */
  throwIfLost(): void {
    const { loss } = this
    if (loss) throw loss
  }

  /** @internal Whether its holder has given it back, or begun to. */
  protected get isReleased(): boolean {
    return this.#released !== undefined
  }

  /** @internal Why it may not be believed in any more. */
  protected get loss(): HoldfastError | undefined {
    if (this.#loss || this.#released) return this.#loss
    return this.currentLoss()
  }

  /** @internal Tells the holder that it is lost. */
  protected lose(reason: HoldfastError): void {
    if (this.#loss || this.#released) return
    this.#loss = reason
    this.#controller?.abort(reason)
    // Whoever closes the instance, or gives back by token, has not lost it.
    const { cause } = reason
    const heldMs = performance.now() - this.#grantedAt
    if (cause instanceof ClosedError) this.reportEnd(heldMs, undefined, cause)
    else this.reportEnd(heldMs, reason, undefined)
  }

  /** @internal Asks the holder to let go; it still holds. */
  protected requestRelease(reason: HoldfastError): void {
    this.#releaseRequest ??= reason
    this.#controller?.abort(reason)
  }

  /** @internal The loss, if what vouches for it cannot be trusted at this very moment. */
  protected abstract currentLoss(): HoldfastError | undefined

  /** @internal Tells who listens that it was lost, or else given back, and by what its holder was asked to. Called once. */
  protected abstract reportEnd(heldMs: number, lost: HoldfastError | undefined, releaseRequest: Error | undefined): void

  /** @internal Asked for once. */
  protected abstract releaseOnServer(): Promise<void>
}

/** What a `with` was given last must be a function. */
export function checkCallback(where: string, work: unknown): void {
  if (typeof work === 'function') return
  throw new UsageError(`Expected the last argument of ${where} to be a function, got ${describe(work)}`)
}

/**
 * Runs `work` while something is held, and gives it back whatever happens. Throws the loss after work that went to its
 * end although it had been lost meanwhile: it may not have been alone.
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
