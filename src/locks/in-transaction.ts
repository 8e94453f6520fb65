import { backoffMs, type Key, pause, UsageError } from '../base/index.js'
import {
  type CallerExecutor,
  type CallerTransaction,
  type Executor,
  executorOf,
  type Statement,
  sqlstate,
  sqlstateOf,
} from '../postgres/index.js'
import type { Mode } from './turns.js'

/**
 * Locks of the caller's own transaction: held until it ends, by commit or rollback, through any pooler.
 *
 * A wait that runs out, or a second name that is busy, must neither spoil the caller's transaction nor leave a lock
 * in it. So whatever may fail happens behind a savepoint, and rolling back to it gives back what was taken.
 */
export interface TransactionLock {
  readonly name: string
  readonly names: readonly string[]
  readonly mode: Mode
  /** Larger than that of every earlier holder of any of the names. */
  readonly fence: number
}

export type TransactionStatements = Record<
  'in_transaction_try' | 'in_transaction_known' | 'in_transaction_wait',
  Statement
>

/** The fence, or null when the names were not free within `waitMs`. The keys come in the order of their numbers. */
export async function lockInTransaction(
  client: CallerTransaction,
  keys: readonly Key[],
  mode: Mode,
  waitMs: number,
  statements: TransactionStatements,
): Promise<number | null> {
  const tx = executorOf(client)
  const numbers = `{${keys.map(({ key }) => key).join(',')}}`
  if (waitMs > 0) return waitFor(tx, numbers, mode, waitMs, statements)
  // One name that is busy leaves nothing behind, so it needs no savepoint.
  if (keys.length === 1) {
    const { fence, known } = await tryAll(tx, numbers, mode, statements)
    // Asked once in each transaction. Outside of one the lock is gone already.
    const [now] = known ? [{ known }] : await tx.query<{ known: boolean }>(statements.in_transaction_known.text)
    if (!now!.known) throw notInTransaction()
    return fence
  }
  return insideTransaction(
    tx.attempt(async (inner) => {
      const { fence } = await tryAll(inner, numbers, mode, statements)
      // Thrown, so that the names which were free are given back.
      if (fence === null) throw new SomeAreBusy()
      return fence
    }),
  ).catch((error) => {
    if (error instanceof SomeAreBusy) return null
    throw error
  })
}

class SomeAreBusy extends Error {}

interface Tried {
  readonly fence: number | null
  /** Whether an earlier statement has shown that there is a transaction. */
  readonly known: boolean
}

async function tryAll(tx: Executor, numbers: string, mode: Mode, statements: TransactionStatements): Promise<Tried> {
  const [row] = await tx.query<{ fence: string | null; known: boolean }>(statements.in_transaction_try.text, [
    numbers,
    mode === 'shared',
  ])
  const { fence, known } = row!
  return { fence: fence === null ? null : Number(fence), known }
}

async function waitFor(
  tx: CallerExecutor,
  numbers: string,
  mode: Mode,
  waitMs: number,
  statements: TransactionStatements,
): Promise<number | null> {
  const until = performance.now() + waitMs
  for (;;) {
    const leftMs = Math.max(1, Math.ceil(until - performance.now()))
    try {
      return await insideTransaction(tx.attempt((inner) => waitOnce(inner, numbers, mode, leftMs, statements)))
    } catch (error) {
      if (sqlstateOf(error) === sqlstate.lockNotAvailable) return null
      if (!(error instanceof SomeAreBusy)) throw error
      // Leased, and a lease has no queue to stand in.
      if (performance.now() >= until) return null
      await pause(Math.min(backoffMs(2, 25, 250), leftMs))
    }
  }
}

async function waitOnce(
  tx: Executor,
  numbers: string,
  mode: Mode,
  waitMs: number,
  { in_transaction_wait: wait }: TransactionStatements,
): Promise<number> {
  // 0 means no limit to PostgreSQL.
  const lockTimeout = Number.isFinite(waitMs) ? String(waitMs) : '0'
  const [row] = await tx.query<{ fence: string | null }>(wait.text, [numbers, mode === 'shared', lockTimeout])
  // Thrown, so that what was taken is given back.
  if (row!.fence === null) throw new SomeAreBusy()
  return Number(row!.fence)
}

/** A savepoint outside a transaction is refused by the server. */
async function insideTransaction<T>(attempt: Promise<T>): Promise<T> {
  try {
    return await attempt
  } catch (error) {
    throw sqlstateOf(error) === sqlstate.noActiveTransaction ? notInTransaction() : error
  }
}

function notInTransaction(): UsageError {
  return new UsageError(
    'Expected a client inside a transaction, got one outside: the lock would have been gone at once',
    'Run `begin` on this client first, or use locks.with to hold a lock without a transaction.',
  )
}
