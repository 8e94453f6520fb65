import { type FlowHold, holdsOfFlow, type Key, UsageError } from '../base/index.js'
import type { Lock } from './lock.js'
import type { LockMode } from './lock-batcher.js'

/**
 * A lock that the present flow of control holds by `with`. Asking for a name again inside the handler that holds it would
 * wait for itself for ever, so it is a mistake, and said at once. The one exception: a reader may read again.
 */
export class LockFlowHold implements FlowHold {
  constructor(
    readonly handle: Lock,
    readonly address: string,
    /**
     * Whose lock it is. Another instance of this process may be asked for the same name inside: it competes, as it would
     * from elsewhere, or it speaks to another database, where the name is another.
     */
    readonly locks: object,
  ) {}

  get keys(): readonly string[] {
    return this.handle.keys
  }
}

/** Whether the flow of control reads this name already; throws when it holds it in a way that would block itself. */
export function isReentrant(key: Key, mode: LockMode, locks: object): boolean {
  for (const held of holdsOfFlow()) {
    if (!(held instanceof LockFlowHold) || held.locks !== locks || !held.keys.includes(key.key)) continue
    if (held.handle.mode === 'shared' && mode === 'shared') return true
    throw new UsageError(
      `"${key.label}" is held already (${held.handle.mode}) by the handler that asks for it (${mode})`,
      'It would wait for itself. Use the lock that the handler was given, or another name for the inner work.',
    )
  }
  return false
}
