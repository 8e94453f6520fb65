import { formatDuration, HoldfastError } from '../base/index.js'
import type { Holder } from '../postgres/index.js'

/**
 * Thrown if the limit has no room for the permit, either immediately or after `wait`. `tryAcquire` returns null
 * instead.
 */
export class LimitReachedError extends HoldfastError {
  readonly limit: string
  /** The limit's maximum, as given by the caller. */
  readonly max: number
  /** Requested weight. */
  readonly weight: number
  /** Sum of the weights of the permits in use. */
  readonly inUse: number
  /** Number of requests that were waiting before this request. */
  readonly waiting: number
  /** Time when the oldest permit in use was granted, on the database's clock. */
  readonly since: Date | undefined
  readonly waitedMs: number
  /** Name of the instance that holds the oldest permit. Undefined if the name is not known. */
  readonly holder: string | undefined

  constructor(
    limit: string,
    {
      max,
      weight,
      inUse,
      waiting,
      since,
      sinceMs,
      waitedMs,
    }: Pick<LimitReachedError, 'max' | 'weight' | 'inUse' | 'waiting' | 'since' | 'waitedMs'> & {
      readonly sinceMs: number | undefined
    },
    holder?: Holder,
  ) {
    const by = holder ? ` by ${holder.text}` : ''
    const oldest = sinceMs === undefined ? '' : `, the oldest${by} for ${formatDuration(sinceMs)}`
    const queue = waiting > 0 ? `, and ${waiting} waiting` : ''
    const after = waitedMs > 0 ? ` after ${formatDuration(waitedMs)} of waiting` : ''
    const requested = weight > 1 ? `; ${weight} were requested` : ''
    super(`The limit "${limit}" has been reached${after}: ${inUse} of ${max} in use${oldest}${queue}${requested}`, {
      code: 'LIMIT_REACHED',
      retryable: true,
      hint: 'Retry later, set `wait` to queue for a permit, or use `tryAcquire`, which returns null.',
    })
    this.limit = limit
    this.max = max
    this.weight = weight
    this.inUse = inUse
    this.waiting = waiting
    this.since = since
    this.waitedMs = waitedMs
    this.holder = holder?.name
  }
}

/**
 * Abort reason of a permit's signal if the permit is lost before it is released. Another holder may have been admitted.
 */
export class PermitLostError extends HoldfastError {
  readonly limit: string
  readonly fence: number

  constructor(limit: string, fence: number, cause: Error) {
    super(`The permit for "${limit}" was lost: ${cause.message}`, {
      code: 'PERMIT_LOST',
      retryable: true,
      hint: 'Stop the work immediately, because another holder may have been admitted.',
      cause,
    })
    this.limit = limit
    this.fence = fence
  }
}

/** Cause of a `PermitLostError`: an operator revoked all of the limit's permits. */
export class LimitResetError extends HoldfastError {
  constructor() {
    super('an operator has reset the limit', { code: 'LIMIT_RESET', retryable: true })
  }
}
