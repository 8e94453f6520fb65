import { AsyncLocalStorage } from 'node:async_hooks'
import { type Key, UsageError } from '../base/index.js'
import type { Lock } from './lock.js'
import type { Mode } from './turns.js'

/**
 * What the present flow of control holds by `with`. Asking for a name again inside the handler that holds it would
 * wait for itself for ever, so it is a mistake, and said at once. The one exception: a reader may read again.
 */
interface Scope {
  readonly lock: Lock
  readonly owner: Owner
  readonly outer: Scope | undefined
}

/**
 * Whose lock it is. Another instance of this process may be asked for the same name inside: it competes, as it would
 * from elsewhere, or it speaks to another database, where the name is another.
 */
export interface Owner {
  /** The instance's locks. */
  readonly locks: object
  /** The address of the database. */
  readonly address: string
}

const current = new AsyncLocalStorage<Scope>()

export function runHolding<T>(lock: Lock, owner: Owner, work: () => T): T {
  return current.run({ lock, owner, outer: current.getStore() }, work)
}

/** All keys that the present flow of control holds in the database. */
export function keysHeldHere(address: string): string[] {
  const keys: string[] = []
  for (let scope = current.getStore(); scope; scope = scope.outer) {
    if (scope.owner.address === address && scope.lock.held) keys.push(...scope.lock.keys)
  }
  return keys
}

/** Whether the flow of control reads this name already; throws when it holds it in a way that would block itself. */
export function isReentrant(key: Key, mode: Mode, locks: object): boolean {
  for (let scope = current.getStore(); scope; scope = scope.outer) {
    if (scope.owner.locks !== locks || !scope.lock.held || !scope.lock.keys.includes(key.key)) continue
    if (scope.lock.mode === 'shared' && mode === 'shared') return true
    throw new UsageError(
      `"${key.label}" is held already (${scope.lock.mode}) by the handler that asks for it (${mode})`,
      'It would wait for itself. Use the lock that the handler was given, or another name for the inner work.',
    )
  }
  return false
}
