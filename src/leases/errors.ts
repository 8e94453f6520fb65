import { formatDuration, HoldfastError } from '../base/index.js'

/** Thrown if another holder still has the lease at the end of `wait`. `tryAcquire` returns null instead. */
export class LeaseTimeoutError extends HoldfastError {
  readonly lease: string
  readonly waitedMs: number

  constructor(lease: string, waitedMs: number) {
    super(`The lease "${lease}" was still held by another holder after a wait of ${formatDuration(waitedMs)}`, {
      code: 'LEASE_TIMEOUT',
      retryable: true,
      hint: `Run \`holdfast lease show '${lease}'\` to see the holder and the expiry.`,
    })
    this.lease = lease
    this.waitedMs = waitedMs
  }
}

/** Cause of a `LeaseLostError` if the holder's lease no longer exists in the database. */
export class LeaseNotHeldError extends HoldfastError {
  constructor() {
    super('the lease has expired, or another process has expired or released it', {
      code: 'LEASE_NOT_HELD',
      retryable: true,
    })
  }
}

/**
 * Abort reason of a lease's signal if the lease was lost before it was released. Another process may hold the name now.
 */
export class LeaseLostError extends HoldfastError {
  readonly lease: string
  readonly fence: number

  constructor(lease: string, fence: number, cause: Error) {
    super(`The lease "${lease}" was lost: ${cause.message}`, {
      code: 'LEASE_LOST',
      retryable: true,
      hint: 'Stop the work immediately. Guard writes with the fence, so that the database rejects late writes.',
      cause,
    })
    this.lease = lease
    this.fence = fence
  }
}
