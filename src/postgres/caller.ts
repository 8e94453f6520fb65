import { describe, UsageError } from '../base/index.js'
import { type PgClient, pgExecutor } from './node-postgres.js'
import type { Executor } from './port.js'
import { type PostgresJsExecutor, postgresJsExecutor } from './postgres-js.js'

/** A client inside a transaction of the caller: of node-postgres (or anything with its `query`), or of postgres.js. */
export type CallerTransaction = PgClient | PostgresJsExecutor

export interface CallerExecutor extends Executor {
  /** Runs `work` behind a savepoint: when it throws, what it did is undone and the transaction can go on. */
  attempt<T>(work: (tx: Executor) => Promise<T>): Promise<T>
}

/** Whatever the caller runs a transaction with, behind our port. */
export function executorOf(client: CallerTransaction): CallerExecutor {
  const given = client as Partial<PgClient & PostgresJsExecutor> | null | undefined
  if (typeof given?.unsafe === 'function') return postgresJsCaller(given as PostgresJsExecutor)
  if (typeof given?.query === 'function') return withAttempts(pgExecutor(given as PgClient))
  throw new UsageError(
    `Expected a client inside a transaction (of pg, or the sql of postgres.js's begin), got ${describe(client)}`,
  )
}

function withAttempts(tx: Executor): CallerExecutor {
  return {
    ...tx,
    async attempt(work) {
      await tx.query('savepoint holdfast')
      try {
        const result = await work(tx)
        await tx.query('release savepoint holdfast')
        return result
      } catch (error) {
        await tx.query('rollback to savepoint holdfast').catch(() => {})
        throw error
      }
    },
  }
}

/** postgres.js fails a transaction in which any statement failed, unless that was inside a savepoint of its own making. */
function postgresJsCaller(sql: PostgresJsExecutor): CallerExecutor {
  const tx = withAttempts(postgresJsExecutor(sql))
  if (!sql.savepoint) return tx
  return {
    ...tx,
    attempt: <T>(work: (tx: Executor) => Promise<T>) =>
      sql.savepoint!((inner) => work(postgresJsExecutor(inner))) as Promise<T>,
  }
}
