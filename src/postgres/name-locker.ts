import type { Handle } from '../base/index.js'
import type { CallerTransaction } from './caller.js'

/** What a keeper grants: a lock, or a lease. */
export interface HeldName extends Handle {
  /** Refuses (`StaleFenceError`) the writes of this transaction if somebody else may have taken over. */
  guard(tx: CallerTransaction): Promise<void>
}

interface AcquireNameOptions {
  readonly wait?: number
  readonly signal?: AbortSignal
}

/**
 * Whoever grants a name to one holder at a time: the locks, or the leases of an instance without an anchor. The rooms
 * that are made of both do not care which.
 */
export interface NameLocker {
  acquire(name: string, options?: AcquireNameOptions): Promise<HeldName>
  tryAcquire(name: string, options?: AcquireNameOptions): Promise<HeldName | null>
}
