import { backoffMs, type Key, pause } from '../base/index.js'
import { arrayOf, type CallerExecutor, type Executor, type Statement, sqlstate, sqlstateOf } from '../postgres/index.js'
import type { Mode } from './turns.js'

/**
 * Locks of the caller's own transaction: held until it ends, by commit or rollback, through any pooler.
 *
 * A wait that runs out, or a second name that is busy, must neither spoil the caller's transaction nor leave a lock
 * in it. So whatever may fail happens behind a savepoint, and rolling back to it gives back what was taken.
 *
 * After a restart or failover the first to see the new server begins its generation (`notice`), beside the caller's transaction:
 * in it, its row would stay locked for everybody until the transaction ends. Until then names count as busy.
 */
export interface TransactionLock {
  readonly name: string
  readonly names: readonly string[]
  readonly mode: Mode
  /** Larger than that of every earlier holder of any of the names. */
  readonly fence: number
}

export type TransactionStatements = Record<'in_transaction_try' | 'in_transaction_wait' | 'notice', Statement>

interface TransactionAsk {
  readonly tx: CallerExecutor
  /** In the order of their numbers. */
  readonly keys: readonly Key[]
  readonly mode: Mode
  readonly waitMs: number
  readonly statements: TransactionStatements
  readonly notice: () => void
}

/** The fence, or null when the names were not free within `waitMs`. */
export async function lockInTransaction(ask: TransactionAsk): Promise<number | null> {
  const { tx } = ask
  if (ask.waitMs > 0) return waitFor(ask)
  // One name that is busy leaves nothing behind, so it needs no savepoint.
  if (ask.keys.length === 1) return tryAll(tx, ask)
  return tx
    .attempt(async (inner) => {
      const fence = await tryAll(inner, ask)
      // Thrown, so that the names which were free are given back.
      if (fence === null) throw new SomeAreBusy()
      return fence
    })
    .catch((error) => {
      if (error instanceof SomeAreBusy) return null
      throw error
    })
}

class SomeAreBusy extends Error {}

interface Answer {
  readonly fence: string | null
  readonly unnoticed: boolean
}

function numbersOf(keys: readonly Key[]): string {
  return arrayOf(keys.map(({ key }) => key))
}

async function tryAll(tx: Executor, { keys, mode, statements, notice }: TransactionAsk): Promise<number | null> {
  const values = [numbersOf(keys), mode === 'shared']
  const [row] = await tx.query<Answer>(statements.in_transaction_try.text, values)
  const { fence, unnoticed } = row!
  if (unnoticed) notice()
  return fence === null ? null : Number(fence)
}

async function waitFor(ask: TransactionAsk): Promise<number | null> {
  const until = performance.now() + ask.waitMs
  for (;;) {
    const leftMs = Math.max(1, Math.ceil(until - performance.now()))
    try {
      return await ask.tx.attempt((inner) => waitOnce(inner, { ...ask, waitMs: leftMs }))
    } catch (error) {
      if (sqlstateOf(error) === sqlstate.lockNotAvailable) return null
      if (!(error instanceof SomeAreBusy)) throw error
      // Leased, and a lease has no queue to stand in; or the server is new.
      if (performance.now() >= until) return null
      await pause(Math.min(backoffMs(2, 25, 250), leftMs))
    }
  }
}

async function waitOnce(tx: Executor, { keys, mode, waitMs, statements, notice }: TransactionAsk): Promise<number> {
  // 0 means no limit to PostgreSQL.
  const lockTimeout = Number.isFinite(waitMs) ? String(waitMs) : '0'
  const values = [numbersOf(keys), mode === 'shared', lockTimeout]
  const [row] = await tx.query<Answer>(statements.in_transaction_wait.text, values)
  if (row!.unnoticed) notice()
  // Thrown, so that what was taken is given back.
  if (row!.fence === null) throw new SomeAreBusy()
  return Number(row!.fence)
}
