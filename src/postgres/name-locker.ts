import type { Handle } from '../base/index.js'
import type { CallerTransaction } from './caller.js'

/** A lock or a lease. */
export interface HeldName extends Handle {
  /** Throws a `StaleFenceError` in the transaction if another holder may have taken over. */
  guard(tx: CallerTransaction): Promise<void>
}

interface AcquireNameOptions {
  readonly wait?: number
  readonly signal?: AbortSignal
}

/** Grants a name to one holder at a time: with locks, or with leases in an instance without an anchor. */
export interface NameLocker {
  acquire(name: string, options?: AcquireNameOptions): Promise<HeldName>
  tryAcquire(name: string, options?: AcquireNameOptions): Promise<HeldName | null>
}
