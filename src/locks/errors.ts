import { formatDuration, HoldfastError } from '../base/index.js'
import type { Holder } from '../postgres/index.js'

/** Thrown if another holder still has the name after `wait`. `tryAcquire` returns null instead. */
export class LockTimeoutError extends HoldfastError {
  readonly lock: string
  readonly waitedMs: number
  /** Name of the holder: an instance's name, or another session's application name. Undefined if the name is not known. */
  readonly holder: string | undefined

  constructor(lock: string, waitedMs: number, holder?: Holder) {
    const who = holder?.text ?? 'another holder'
    const since = holder?.heldMs == null ? '' : `. The hold began ${formatDuration(holder.heldMs)} ago`
    super(`The lock "${lock}" was still held by ${who} after a wait of ${formatDuration(waitedMs)}${since}`, {
      code: 'LOCK_TIMEOUT',
      retryable: true,
      hint: `Run \`holdfast lock show '${lock}'\` to see the holder.`,
    })
    this.lock = lock
    this.waitedMs = waitedMs
    this.holder = holder?.name
  }
}

/** Abort reason of a lock's signal if the lock is lost before it is released. Another process may now hold the name. */
export class LockLostError extends HoldfastError {
  readonly lock: string
  readonly fence: number

  constructor(lock: string, fence: number, cause: Error) {
    super(`"${lock}" was lost: ${cause.message}`, {
      code: 'LOCK_LOST',
      retryable: true,
      hint: 'Stop the work immediately. Guard writes with the fence, so that the database rejects late writes.',
      cause,
    })
    this.lock = lock
    this.fence = fence
  }
}

/**
 * Abort reason of a lock's signal if an operator requests the lock's release. You hold the lock until you release it.
 */
export class ReleaseRequestedError extends HoldfastError {
  readonly lock: string

  constructor(lock: string) {
    super(`An operator requested the release of "${lock}"`, {
      code: 'RELEASE_REQUESTED',
      retryable: true,
      hint: 'The lock is still held, and will be released when the work ends.',
    })
    this.lock = lock
  }
}
