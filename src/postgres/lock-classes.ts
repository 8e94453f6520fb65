import { internalLockClass } from '../base/index.js'

/**
 * Classes of internal advisory locks that are needed before the schema exists. `holdfast.lock_class(purpose)` returns all other classes.
 *
 * - **migration** (object 0): ensures that only one process migrates at a time.
 * - **truth** (object: a random number): proves that session locks exclude other sessions.
 * - **session** (object: a session number): presence. In the schema, `session_class()` returns this class, and the other classes are
 *   derived from it.
 */
export type LockClass = 'migration' | 'truth' | 'session'

export function lockClass(schema: string, purpose: LockClass): number {
  return internalLockClass(schema, purpose)
}
