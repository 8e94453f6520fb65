import { describe, UsageError } from '../base/index.js'
import { type PgClient, pgExecutor } from './node-postgres.js'
import type { Executor } from './port.js'
import { type PostgresJsExecutor, postgresJsExecutor } from './postgres-js.js'
import { clientBeneath, type StackTransaction } from './stacks.js'

/**
 * A transaction of the caller that is open: a client of node-postgres (or anything with its `query`), what postgres.js's
 * `begin` hands out, or the transaction of Drizzle, Knex, Kysely, Prisma or TypeORM.
 */
export type CallerTransaction = PgClient | PostgresJsExecutor | StackTransaction

export interface CallerExecutor extends Executor {
  /** Runs `work` behind a savepoint: when it throws, what it did is undone and the transaction can go on. */
  attempt<T>(work: (tx: Executor) => Promise<T>): Promise<T>
}

/**
 * Whatever the caller runs a transaction with, behind our port. What we ask there names its columns in one word each, which
 * no library puts in another case, and has no column of type void, which Prisma does not know.
 */
export function executorOf(client: CallerTransaction): CallerExecutor {
  const given = (clientBeneath(client) ?? client) as Partial<PgClient & PostgresJsExecutor> | null | undefined
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
        // Rolled back to, it is still open, and the next one would nest below it. Not in one text: not every library sends two.
        await tx
          .query('rollback to savepoint holdfast')
          .then(() => tx.query('release savepoint holdfast'))
          .catch(() => {})
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
