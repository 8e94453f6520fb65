import type { Handle } from '../base/index.js'
import type { CallerTransaction } from './caller.js'

/** What a keeper grants: a lock, or a lease. */
export interface Kept extends Handle {
  /** Refuses (`StaleFenceError`) the writes of this transaction if somebody else may have taken over. */
  guard(tx: CallerTransaction): Promise<void>
}

interface KeepOptions {
  readonly wait?: number
  readonly signal?: AbortSignal
}

/**
 * Whoever grants a name to one holder at a time: the locks, or the leases of an instance without an anchor. The rooms
 * that are made of both do not care which.
 */
export interface Keeper {
  acquire(name: string, options?: KeepOptions): Promise<Kept>
  tryAcquire(name: string, options?: KeepOptions): Promise<Kept | null>
}
