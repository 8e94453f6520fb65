import type { HoldfastError, Key } from '../base/index.js'
import type { LockBatcher, LockMode } from './lock-batcher.js'

/** Handle that is notified when its hold is lost or when its release is requested. */
export interface HoldWatcher {
  lost(reason: HoldfastError): void
  /** Called when the lock's release is requested. If there is no reason, an operator requested the release. */
  releaseRequested(reason?: HoldfastError): void
}

/**
 * One lock grant, for one key, in one mode, to one session. An exclusive hold has one user. All readers in this
 * process share one hold, which is released when the last reader leaves.
 */
export class Hold {
  readonly watchers = new Set<HoldWatcher>()
  readonly grantedAt = performance.now()
  /** Time until which readers join without a check for waiting writers in other processes. */
  joinableUntil = this.grantedAt + joinFreelyMs
  users = 0
  #lossReason: HoldfastError | undefined

  constructor(
    readonly key: Key,
    readonly mode: LockMode,
    readonly fence: number,
    readonly batcher: LockBatcher,
  ) {}

  get trusted(): boolean {
    return this.#lossReason === undefined && this.batcher.session.trusted
  }

  get lossReason(): HoldfastError | undefined {
    // Reading `trusted` makes the session detect whether its deadline has passed.
    return this.trusted ? undefined : (this.#lossReason ?? this.batcher.session.loss)
  }

  lose(reason: HoldfastError): void {
    this.#lossReason = reason
    for (const watcher of this.watchers) watcher.lost(reason)
  }
}

/** Time after a grant, or after a check for waiting writers, during which readers may join without another check. */
export const joinFreelyMs = 1_000
