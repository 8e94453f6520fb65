import { backoffMs, type Key, pause } from '../base/index.js'
import {
  arrayLiteral,
  type CallerExecutor,
  type Executor,
  type Statement,
  sqlstate,
  sqlstateOf,
} from '../postgres/index.js'
import type { LockMode } from './lock-batcher.js'

/** Lock that belongs to the caller's own transaction. The lock ends when the transaction commits or rolls back. */
export interface TransactionLock {
  readonly name: string
  readonly names: readonly string[]
  readonly mode: LockMode
  /** Fencing token, larger than the fencing token of every earlier holder of any of the names. */
  readonly fence: number
}

export type TransactionLockStatements = Record<
  'in_transaction_try' | 'in_transaction_wait' | 'begin_generation',
  Statement
>

interface TransactionLockRequest {
  readonly tx: CallerExecutor
  /** Sorted by key. */
  readonly keys: readonly Key[]
  readonly mode: LockMode
  readonly waitMs: number
  readonly statements: TransactionLockStatements
  readonly beginGeneration: () => void
}

/**
 * Returns the fence, or null if the names do not become free within `waitMs`.
 *
 * If a wait times out, or if one of several names is busy, the caller's transaction must neither be aborted nor keep a
 * lock. A wait therefore runs after a savepoint, and a rollback to the savepoint releases the locks. The statement for an
 * attempt without a wait does the same on the server, which saves two round trips.
 *
 * After a restart or failover, `beginGeneration` runs outside the caller's transaction. Inside the caller's
 * transaction, its row would stay locked for all other processes until the transaction ends. Names count as busy until
 * the generation has begun.
 */
export async function lockInTransaction(request: TransactionLockRequest): Promise<number | null> {
  return request.waitMs > 0 ? waitForAll(request) : tryAll(request)
}

class NamesBusy extends Error {}

interface LockRow {
  readonly fence: string | null
  readonly is_new_generation: boolean
}

function numbersOf(keys: readonly Key[]): string {
  return arrayLiteral(keys.map(({ key }) => key))
}

async function tryAll({ tx, keys, mode, statements, beginGeneration }: TransactionLockRequest): Promise<number | null> {
  const values = [numbersOf(keys), mode === 'shared']
  const [row] = await tx.query<LockRow>(statements.in_transaction_try.text, values)
  const { fence, is_new_generation } = row!
  if (is_new_generation) beginGeneration()
  return fence === null ? null : Number(fence)
}

async function waitForAll(request: TransactionLockRequest): Promise<number | null> {
  const until = performance.now() + request.waitMs
  for (;;) {
    const leftMs = Math.max(1, Math.ceil(until - performance.now()))
    try {
      return await request.tx.inSavepoint((inner) => waitOnce(inner, { ...request, waitMs: leftMs }))
    } catch (error) {
      if (sqlstateOf(error) === sqlstate.lockNotAvailable) return null
      if (!(error instanceof NamesBusy)) throw error
      // Either the server has just restarted, or a name is leased. Leases have no server-side queue, so the call
      // retries.
      if (performance.now() >= until) return null
      await pause(Math.min(backoffMs(2, 25, 250), leftMs))
    }
  }
}

async function waitOnce(
  tx: Executor,
  { keys, mode, waitMs, statements, beginGeneration }: TransactionLockRequest,
): Promise<number> {
  // PostgreSQL interprets 0 as no limit.
  const lockTimeout = Number.isFinite(waitMs) ? String(waitMs) : '0'
  const values = [numbersOf(keys), mode === 'shared', lockTimeout]
  const [row] = await tx.query<LockRow>(statements.in_transaction_wait.text, values)
  if (row!.is_new_generation) beginGeneration()
  // Rolls back to the savepoint, which releases the locks.
  if (row!.fence === null) throw new NamesBusy()
  return Number(row!.fence)
}
