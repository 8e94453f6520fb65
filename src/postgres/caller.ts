import { describe, UsageError } from '../base/index.js'
import { type PgClient, pgExecutor } from './node-postgres.js'
import type { Executor } from './port.js'
import { type PostgresJsExecutor, postgresJsExecutor } from './postgres-js.js'

/** A client inside a transaction of the caller: of node-postgres (or anything with its `query`), or of postgres.js. */
export type CallerTransaction = PgClient | PostgresJsExecutor

/** Whatever the caller runs a transaction with, behind our port. */
export function executorOf(client: CallerTransaction): Executor {
  const given = client as Partial<PgClient & PostgresJsExecutor> | null | undefined
  if (typeof given?.unsafe === 'function') return postgresJsExecutor(given as PostgresJsExecutor)
  if (typeof given?.query === 'function') return pgExecutor(given as PgClient)
  throw new UsageError(
    `Expected a client inside a transaction (of pg, or the sql of postgres.js's begin), got ${describe(client)}`,
  )
}
