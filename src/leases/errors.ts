import { formatDuration, HoldfastError } from '../base/index.js'
import type { Holder } from '../postgres/index.js'

/** Thrown if another holder still has the lease after `wait`. `tryAcquire` returns null instead. */
export class LeaseTimeoutError extends HoldfastError {
  readonly lease: string
  readonly waitedMs: number
  /**
   * The holder's name: an instance's name, or another session's application name. Undefined if the name is not known.
   */
  readonly holder: string | undefined

  constructor(lease: string, waitedMs: number, holder?: Holder) {
    const who = holder?.text ?? 'another holder'
    const since = holder?.heldMs == null ? '' : `. The hold began ${formatDuration(holder.heldMs)} ago`
    super(`The lease "${lease}" was still held by ${who} after a wait of ${formatDuration(waitedMs)}${since}`, {
      code: 'LEASE_TIMEOUT',
      retryable: true,
      hint: `Run \`holdfast lease show '${lease}'\` to see the holder and the expiry.`,
    })
    this.lease = lease
    this.waitedMs = waitedMs
    this.holder = holder?.name
  }
}

/** Cause of a `LeaseLostError`: the holder's lease no longer exists in the database. */
export class LeaseNotHeldError extends HoldfastError {
  constructor() {
    super('the lease has expired, or another process has expired or released it', {
      code: 'LEASE_NOT_HELD',
      retryable: true,
    })
  }
}

/**
 * Abort reason of a lease's signal if the lease is lost before it is released. Another process may now hold the name.
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
