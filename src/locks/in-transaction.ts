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

/**
 * Locks of the caller's own transaction: held until it ends, by commit or rollback, through any pooler.
 *
 * A wait that runs out, or a second name that is busy, must neither spoil the caller's transaction nor leave a lock
 * in it. So whatever may fail happens behind a savepoint, and rolling back to it gives back what was taken.
 *
 * After a restart or failover the first to see the new server begins its generation (`begin_generation`), beside the caller's transaction:
 * in it, its row would stay locked for everybody until the transaction ends. Until then names count as busy.
 */
export interface TransactionLock {
  readonly name: string
  readonly names: readonly string[]
  readonly mode: LockMode
  /** Larger than that of every earlier holder of any of the names. */
  readonly fence: number
}

export type TransactionLockStatements = Record<
  'in_transaction_try' | 'in_transaction_wait' | 'begin_generation',
  Statement
>

interface TransactionLockRequest {
  readonly tx: CallerExecutor
  /** In the order of their numbers. */
  readonly keys: readonly Key[]
  readonly mode: LockMode
  readonly waitMs: number
  readonly statements: TransactionLockStatements
  readonly beginGeneration: () => void
}

/** The fence, or null when the names were not free within `waitMs`. */
export async function lockInTransaction(request: TransactionLockRequest): Promise<number | null> {
  const { tx } = request
  if (request.waitMs > 0) return waitForAll(request)
  // One name that is busy leaves nothing behind, so it needs no savepoint.
  if (request.keys.length === 1) return tryAll(tx, request)
  return tx
    .inSavepoint(async (inner) => {
      const fence = await tryAll(inner, request)
      // Thrown, so that the names which were free are given back.
      if (fence === null) throw new NamesBusy()
      return fence
    })
    .catch((error) => {
      if (error instanceof NamesBusy) return null
      throw error
    })
}

class NamesBusy extends Error {}

interface LockRow {
  readonly fence: string | null
  readonly is_new_generation: boolean
}

function numbersOf(keys: readonly Key[]): string {
  return arrayLiteral(keys.map(({ key }) => key))
}

async function tryAll(
  tx: Executor,
  { keys, mode, statements, beginGeneration }: TransactionLockRequest,
): Promise<number | null> {
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
      // Leased, and a lease has no queue to stand in; or the server is new.
      if (performance.now() >= until) return null
      await pause(Math.min(backoffMs(2, 25, 250), leftMs))
    }
  }
}

async function waitOnce(
  tx: Executor,
  { keys, mode, waitMs, statements, beginGeneration }: TransactionLockRequest,
): Promise<number> {
  // 0 means no limit to PostgreSQL.
  const lockTimeout = Number.isFinite(waitMs) ? String(waitMs) : '0'
  const values = [numbersOf(keys), mode === 'shared', lockTimeout]
  const [row] = await tx.query<LockRow>(statements.in_transaction_wait.text, values)
  if (row!.is_new_generation) beginGeneration()
  // Thrown, so that what was taken is given back.
  if (row!.fence === null) throw new NamesBusy()
  return Number(row!.fence)
}
