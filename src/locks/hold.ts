import type { HoldfastError, Key } from '../base/index.js'
import type { LockBatcher, LockMode } from './lock-batcher.js'

/** A handle that depends on a hold. */
export interface HoldWatcher {
  lost(reason: HoldfastError): void
  /** If there is no reason, an operator requested the release. */
  releaseRequested(reason?: HoldfastError): void
}

/**
 * One grant by the server: one key, one mode, one session. An exclusive hold has one user. All readers of this process
 * share one hold, which is released when the last reader leaves.
 */
export class Hold {
  readonly watchers = new Set<HoldWatcher>()
  readonly grantedAt = performance.now()
  /** Until this time, readers join without checking whether a writer in another process is waiting. */
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
    // Reading `trusted` makes the session detect a deadline that has passed.
    return this.trusted ? undefined : (this.#lossReason ?? this.batcher.session.loss)
  }

  lose(reason: HoldfastError): void {
    this.#lossReason = reason
    for (const watcher of this.watchers) watcher.lost(reason)
  }
}

/** Time after a grant, or after a check for waiting writers, during which readers join without another check. */
export const joinFreelyMs = 1_000
