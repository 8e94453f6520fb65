import { type FlowHold, holdsOfFlow, type Key, UsageError } from '../base/index.js'
import type { Lock } from './lock.js'
import type { LockMode } from './lock-batcher.js'

/** Lock that an enclosing `with` handler holds. */
export class LockFlowHold implements FlowHold {
  constructor(
    readonly handle: Lock,
    readonly address: string,
    /**
     * The `Locks` object that acquired the lock. A second instance in the same process competes for locks as another
     * process does.
     */
    readonly locks: object,
  ) {}

  get keys(): readonly string[] {
    return this.handle.keys
  }
}

/**
 * Returns true if the calling handler already holds the name in shared mode and requests it again in shared mode.
 * Throws an error if the request would wait for a lock that its own handler holds.
 */
export function isReentrant(key: Key, mode: LockMode, locks: object): boolean {
  for (const held of holdsOfFlow()) {
    if (!(held instanceof LockFlowHold) || held.locks !== locks || !held.keys.includes(key.key)) continue
    if (held.handle.mode === 'shared' && mode === 'shared') return true
    throw new UsageError(
      `"${key.label}" is already held (${held.handle.mode}) by the handler that is requesting it (${mode})`,
      'The request would wait for itself. Use the lock that the handler received, or use a different name for the inner work.',
    )
  }
  return false
}
