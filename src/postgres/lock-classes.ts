import { internalLockClass } from '../base/index.js'

/**
 * Classes of internal advisory locks that are needed before the schema exists. `holdfast.lock_class(purpose)` has all others.
 *
 * - **migration** (object 0): one process at a time migrates.
 * - **truth** (object: a random number): proves that session locks exclude other sessions.
 * - **session** (object: a session number): presence. In the schema, `session_class()` returns this class, and the other classes are
 *   derived from it.
 */
export type LockClass = 'migration' | 'truth' | 'session'

export function lockClass(schema: string, purpose: LockClass): number {
  return internalLockClass(schema, purpose)
}
