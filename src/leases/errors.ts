import { formatDuration, HoldfastError } from '../base/index.js'

/** The time given for waiting is over and somebody else still has the lease. `tryAcquire` answers null instead. */
export class LeaseTimeoutError extends HoldfastError {
  readonly lease: string
  readonly waitedMs: number

  constructor(lease: string, waitedMs: number) {
    super(`"${lease}" was still leased after ${formatDuration(waitedMs)}`, {
      code: 'LEASE_TIMEOUT',
      retryable: true,
      hint: `\`holdfast lease show '${lease}'\` tells who has it, and until when.`,
    })
    this.lease = lease
    this.waitedMs = waitedMs
  }
}

/** The database says that it is not ours any more. The cause of a `LeaseLostError`. */
export class LeaseNotHeldError extends HoldfastError {
  constructor() {
    super('it expired, or somebody has expired or released it', { code: 'LEASE_NOT_HELD', retryable: true })
  }
}

/** The lease is gone although nobody released it; somebody else may have it now. The reason of the handle's signal. */
export class LeaseLostError extends HoldfastError {
  readonly lease: string
  readonly fence: number

  constructor(lease: string, fence: number, cause: Error) {
    super(`The lease "${lease}" was lost: ${cause.message}`, {
      code: 'LEASE_LOST',
      retryable: true,
      hint: 'Stop the work at once. Guard its writes with the fence, so that a late one is refused.',
      cause,
    })
    this.lease = lease
    this.fence = fence
  }
}
