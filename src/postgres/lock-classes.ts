import { internalLockClass } from '../base/index.js'

/**
 * Classes of advisory locks in the two-integer space that must be known before the schema exists. All others are in
 * `holdfast.lock_class(purpose)`, in functions.sql of this room.
 *
 * - **migration** (object 0): one process at a time migrates.
 * - **truth** (object: a random number): proves that locks of a session exclude other sessions.
 * - **session** (object: the number of a session): presence. The schema has it as `session_class()`, and derives the others from it.
 */
export type LockClass = 'migration' | 'truth' | 'session'

export function lockClass(schema: string, purpose: LockClass): number {
  return internalLockClass(schema, purpose)
}
