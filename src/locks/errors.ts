import { formatDuration, HoldfastError } from '../base/index.js'

/** The time given for waiting is over and the name is still taken. `tryAcquire` answers null instead. */
export class LockTimeoutError extends HoldfastError {
  readonly lock: string
  readonly waitedMs: number

  constructor(lock: string, waitedMs: number) {
    super(`"${lock}" was still taken after ${formatDuration(waitedMs)}`, {
      code: 'LOCK_TIMEOUT',
      retryable: true,
      hint: `\`holdfast lock show '${lock}'\` tells who holds it.`,
    })
    this.lock = lock
    this.waitedMs = waitedMs
  }
}

/** The lock is gone although nobody released it; somebody else may hold it now. The reason of the handle's signal. */
export class LockLostError extends HoldfastError {
  readonly lock: string
  readonly fence: number

  constructor(lock: string, fence: number, cause: Error) {
    super(`"${lock}" was lost: ${cause.message}`, {
      code: 'LOCK_LOST',
      retryable: true,
      hint: 'Stop the work at once. Guard its writes with the fence, so that a late one is refused.',
      cause,
    })
    this.lock = lock
    this.fence = fence
  }
}

/** An operator asked the holder to let go. The lock is still held: finish or stop, then release. */
export class ReleaseRequestedError extends HoldfastError {
  readonly lock: string

  constructor(lock: string) {
    super(`An operator asked for the release of "${lock}"`, {
      code: 'RELEASE_REQUESTED',
      retryable: true,
      hint: 'The lock is still held; it is released when the work ends.',
    })
    this.lock = lock
  }
}
