import type { HoldfastError, Key } from '../base/index.js'
import type { LockBatcher, LockMode } from './lock-batcher.js'

/** Whoever relies on a hold and must be told about it. */
export interface HoldWatcher {
  lost(reason: HoldfastError): void
  /** Without a reason: by an operator. */
  releaseRequested(reason?: HoldfastError): void
}

/**
 * One grant by the server: this process holds one key, in one mode, on one session. An exclusive hold has one user; a
 * shared one is used by every reader of this process that joined it, and is given back when the last has left.
 */
export class Hold {
  readonly watchers = new Set<HoldWatcher>()
  readonly grantedAt = performance.now()
  /** Until when further readers of this process join without asking whether a writer waits elsewhere. */
  joinableUntil = this.grantedAt + joinFreelyMs
  users = 0
  #lossReason: HoldfastError | undefined

  constructor(
    readonly key: Key,
    readonly mode: LockMode,
    readonly fence: number,
    readonly batcher: LockBatcher,
  ) {}

  /** Whether it may be believed in at this very moment. */
  get trusted(): boolean {
    return this.#lossReason === undefined && this.batcher.session.trusted
  }

  get lossReason(): HoldfastError | undefined {
    // Asking for trust makes the session notice a deadline that has passed.
    return this.trusted ? undefined : (this.#lossReason ?? this.batcher.session.loss)
  }

  lose(reason: HoldfastError): void {
    this.#lossReason = reason
    for (const watcher of this.watchers) watcher.lost(reason)
  }
}

/** For how long a probe, or the grant itself, is good for; see the arbiter. */
export const joinFreelyMs = 1_000
