import { formatDuration, HoldfastError } from '../base/index.js'

/** What was found in use by whoever was refused. */
interface UsageWhenRefused {
  /** How much there may be in use, as the caller has it. */
  readonly max: number
  /** How much the caller asked for. */
  readonly weight: number
  /** How much was in use. */
  readonly inUse: number
  /** How many stood before the caller and waited. */
  readonly waiting: number
  /** When the oldest permit in use was granted, on the clock of the database. */
  readonly since: Date | undefined
  /** How long ago that was. */
  readonly sinceMs: number | undefined
  readonly waitedMs: number
}

/** As much is in use as may be, also after the time given for waiting. `tryAcquire` answers null instead. */
export class LimitReachedError extends HoldfastError {
  readonly limit: string
  readonly max: number
  readonly weight: number
  readonly inUse: number
  readonly waiting: number
  readonly since: Date | undefined
  readonly waitedMs: number

  constructor(limit: string, { max, weight, inUse, waiting, since, sinceMs, waitedMs }: UsageWhenRefused) {
    const oldest = sinceMs === undefined ? '' : `, the oldest for ${formatDuration(sinceMs)}`
    const queue = waiting > 0 ? `, and ${waiting} wait` : ''
    const after = waitedMs > 0 ? ` after ${formatDuration(waitedMs)} of waiting` : ''
    const asked = weight > 1 ? `; ${weight} were asked for` : ''
    super(`The limit "${limit}" is reached${after}: ${inUse} of ${max} in use${oldest}${queue}${asked}`, {
      code: 'LIMIT_REACHED',
      retryable: true,
      hint: 'Try again later, give `wait` to queue up for it, or take what `tryAcquire` answers as an outcome.',
    })
    this.limit = limit
    this.max = max
    this.weight = weight
    this.inUse = inUse
    this.waiting = waiting
    this.since = since
    this.waitedMs = waitedMs
  }
}

/** The permit is gone although nobody released it; somebody else may have it now. The reason of the handle's signal. */
export class PermitLostError extends HoldfastError {
  readonly limit: string
  readonly fence: number

  constructor(limit: string, fence: number, cause: Error) {
    super(`The permit of "${limit}" was lost: ${cause.message}`, {
      code: 'PERMIT_LOST',
      retryable: true,
      hint: 'Stop the work at once: somebody else may have been let in.',
      cause,
    })
    this.limit = limit
    this.fence = fence
  }
}

/** The cause of a `PermitLostError`: an operator has taken all permits of the limit away. */
export class LimitResetError extends HoldfastError {
  constructor() {
    super('an operator has reset the limit', { code: 'LIMIT_RESET', retryable: true })
  }
}
