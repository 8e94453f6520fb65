import { ClosedError, type Events, Handle, type HoldfastError } from '../base/index.js'
import { PermitLostError } from './errors.js'
import type { PermitRequest } from './permit-batcher.js'

/**
 * Handle to a permit. A permit needs no renewals. The permit is lost when the instance is no longer present in the
 * database.
 *
 * @example
 * await using permit = await holdfast.limits.acquire('gpu', { max: 8, weight: 2, wait: '30s' })
 * for (const batch of batches) {
 *   permit.signal.throwIfAborted()
 *   await train(batch)
 * }
 */
export class Permit extends Handle {
  readonly name: string
  /** Number of the limit's units that the permit uses. */
  readonly weight: number
  /** Fencing token, larger than the fencing token of every earlier permit with the name. */
  readonly fence: number
  /** @internal */
  readonly request: PermitRequest
  readonly #giveBack: (permit: Permit, request: PermitRequest) => Promise<void>
  readonly #events: Events

  /** @internal */
  constructor(
    request: PermitRequest,
    fence: number,
    giveBack: (permit: Permit, request: PermitRequest) => Promise<void>,
    events: Events,
  ) {
    super()
    this.name = request.name
    this.weight = request.weight
    this.fence = fence
    this.request = request
    this.#giveBack = giveBack
    this.#events = events
  }

  /** @internal */
  onLost(reason: HoldfastError): void {
    this.lose(new PermitLostError(this.name, this.fence, reason))
  }

  /** @internal */
  onReleaseRequested(reason: HoldfastError): void {
    this.requestRelease(reason)
  }

  /** @internal */
  protected currentLoss(): PermitLostError | undefined {
    const { epoch } = this.request
    if (epoch.trusted) return undefined
    return new PermitLostError(this.name, this.fence, epoch.loss ?? new ClosedError('This instance'))
  }

  /** @internal */
  protected reportEnd(heldMs: number, lost: HoldfastError | undefined): void {
    const { name, weight, fence } = this
    if (lost) this.#events.emitter('limit.lost')?.({ name, weight, fence, heldMs, reason: lost })
    else this.#events.emitter('limit.released')?.({ name, weight, fence, heldMs })
  }

  /** @internal */
  protected releaseOnServer(): Promise<void> {
    return this.#giveBack(this, this.request)
  }
}
