import { describe, type UsageError } from '../base/index.js'
import type { Executor } from './database.js'
import { driverClientOf, type LibraryTransaction, notOpenError } from './library-transactions.js'
import { type PgClient, pgExecutor } from './node-postgres.js'
import { type PostgresJsExecutor, postgresJsExecutor } from './postgres-js.js'
import { sqlstate, sqlstateOf } from './sqlstate.js'

/**
 * Your open transaction: a node-postgres client (or any object with the same `query` method) on which you have run
 * `begin`, or the `sql` that postgres.js's `sql.begin` passes to your function. A transaction object from Drizzle, Knex,
 * Kysely, MikroORM, Prisma or TypeORM is accepted too. A pool is not a transaction, because each statement may run on a different
 * connection.
 */
export type CallerTransaction = CallerClient | CallerSql | LibraryTransaction

/** A node-postgres client. A pool also has the `query` method, but only a pool has `totalCount`. */
export type CallerClient = PgClient & { readonly totalCount?: never }

/** The `sql` object inside a transaction, or from `sql.reserve`. Only the `sql` object outside a transaction has `begin`. */
export type CallerSql = PostgresJsExecutor & ({ readonly begin?: never } | { release(): void })

/** Executor on a caller's transaction. Calls on the same transaction run one after the other, even if they use different executors. */
export interface CallerExecutor extends Executor {
  /**
   * Runs `work` after a savepoint. If `work` throws, its changes are undone and the transaction can continue. `work` must run the user's code
   * with `runNested`, because the user's code may call Holdfast with the same transaction.
   */
  inSavepoint<T>(work: (tx: Executor, runNested: RunNested) => Promise<T>): Promise<T>
}

export type RunNested = <T>(work: () => Promise<T>) => Promise<T>

/**
 * PostgreSQL rejects this statement outside a transaction (25P01). Inside a transaction, the statement costs one round trip and takes only
 * the weakest lock, on a catalog that does not change. A savepoint would need a second statement.
 */
const openCheck = 'lock table pg_catalog.pg_am in access share mode'

/** Transactions that Holdfast passes to the user's functions. Each transaction is open while it accepts statements. */
const ownTransactions = new WeakSet<object>()

/** Marks a transaction that Holdfast passes to a user's function. Holdfast does not need to check whether such a transaction is open. */
export function markOwnTransaction<T extends object>(tx: T): T {
  ownTransactions.add(tx)
  return tx
}

/** Transactions of the user's library that a running handler uses. */
const transactionsOfHandlers = new WeakSet<object>()

/**
 * Marks a transaction that the user's library has opened for a handler. Holdfast does not need to check whether such a transaction is
 * open. The returned function removes the mark, because calls after the handler has ended must be refused.
 */
export function markHandlerTransaction(tx: CallerTransaction): () => void {
  transactionsOfHandlers.add(tx)
  return () => transactionsOfHandlers.delete(tx)
}

/**
 * Wraps the caller's transaction. Throws a `UsageError` for anything else, such as a pool. For a client without an open transaction, the
 * first query throws this error before anything is written.
 *
 * Statements for this executor use one-word column names, so that no library changes their case. They return no column of type void,
 * because Prisma does not support that type.
 */
export function executorOf(client: CallerTransaction): CallerExecutor {
  const driverClient = driverClientOf(client)
  const given = (driverClient ?? client) as Partial<PgClient & PostgresJsExecutor & RootSql> | null | undefined
  if (isPool(given)) {
    throw notOpenError(
      'a pool of node-postgres',
      'a client of the pool (await pool.connect()) on which you have run `begin`',
    )
  }
  if (typeof given?.unsafe === 'function') {
    if (typeof given.begin === 'function' && typeof given.savepoint !== 'function') {
      throw notOpenError(
        'the postgres.js sql object outside a transaction',
        'the sql object that sql.begin passes to your function',
      )
    }
    return queued(
      given,
      postgresJsCaller(given as PostgresJsExecutor, () => transactionsOfHandlers.has(client)),
    )
  }
  if (typeof given?.query === 'function') {
    const isOpen = () => isKnownOpen(given) ?? (driverClient !== undefined || ownTransactions.has(given))
    return queued(given, withSavepoints(pgExecutor(given as PgClient), isOpen))
  }
  throw notOpenError(
    describe(client),
    'a client on which you have run `begin`, or the transaction object of your library',
  )
}

interface RootSql {
  readonly begin: unknown
}

function isPool(given: object | null | undefined): boolean {
  return typeof given === 'object' && given !== null && 'totalCount' in given && 'idleCount' in given
}

/**
 * Returns whether the client reports an open transaction. node-postgres 8.21 and later keep the last response's
 * transaction status. Returns undefined for clients that do not keep the status, such as older clients and wrappers.
 */
function isKnownOpen(client: object): boolean | undefined {
  const { getTransactionStatus } = client as { getTransactionStatus?: unknown }
  if (typeof getTransactionStatus !== 'function') return undefined
  try {
    const status: unknown = getTransactionStatus.call(client)
    // A failed transaction (`E`) counts as open, because the server rejects the statement with a clear error.
    return status === 'T' || status === 'E'
  } catch {
    // Older versions of pg-native do not keep the status.
    return undefined
  }
}

type SavepointExecutor = Executor & { inSavepoint<T>(work: (tx: Executor) => Promise<T>): Promise<T> }

/** Queue of each client of a transaction. */
const queues = new WeakMap<object, CallQueue>()

/** Runs calls with the same client one after the other. */
function queued(client: object, executor: SavepointExecutor): CallerExecutor {
  const calls = queues.get(client) ?? new CallQueue()
  queues.set(client, calls)
  return {
    query: <Row>(text: string, values?: readonly unknown[]) => calls.run(() => executor.query<Row>(text, values)),
    inSavepoint: (work) =>
      calls.run(() => executor.inSavepoint((tx) => work(tx, (userWork) => calls.runNested(userWork)))),
  }
}

/**
 * Runs Holdfast's calls on one transaction one after the other. If the savepoints of two calls interleaved, a rollback to the first savepoint
 * would also undo the changes of the second call.
 */
class CallQueue {
  /** `last` resolves when all calls of the level have ended. */
  #level = { last: Promise.resolve() as Promise<unknown> }

  run<T>(call: () => Promise<T>): Promise<T> {
    const result = this.#level.last.then(call)
    this.#level.last = result.catch(() => {})
    return result
  }

  /**
   * Runs the user's code during a call. Calls that start meanwhile form a new level, because the user's code may wait for them. Resolves
   * when these calls have ended too.
   */
  async runNested<T>(work: () => Promise<T>): Promise<T> {
    const outer = this.#level
    const level = { last: Promise.resolve() as Promise<unknown> }
    this.#level = level
    try {
      return await work()
    } finally {
      for (let last: unknown; last !== level.last; await last) last = level.last
      this.#level = outer
    }
  }
}

/** Adds savepoints to an executor. `isOpen` returns true if the transaction is known to be open, so that no query is needed to check. */
function withSavepoints(tx: Executor, isOpen: () => boolean): SavepointExecutor {
  let isProven = false
  const prove = async (statement: string) => {
    await tx.query(statement).catch((error) => {
      throw sqlstateOf(error) === sqlstate.noActiveTransaction ? noTransactionError() : error
    })
    isProven = true
  }
  return {
    async query<Row>(text: string, values?: readonly unknown[]) {
      if (!isProven && !isOpen()) await prove(openCheck)
      return tx.query<Row>(text, values)
    },
    async inSavepoint(work) {
      await prove('savepoint holdfast')
      try {
        const result = await work(tx)
        await tx.query('release savepoint holdfast')
        return result
      } catch (error) {
        // After the rollback, the savepoint still exists, and the next savepoint would be nested inside it. Therefore the savepoint is also
        // released. The two statements are separate queries, because not every library can send two statements in one query.
        await tx
          .query('rollback to savepoint holdfast')
          .then(() => tx.query('release savepoint holdfast'))
          .catch(() => {})
        throw error
      }
    },
  }
}

/**
 * Uses postgres.js's own savepoints. Unless postgres.js created the savepoint, a failed statement makes it fail the
 * whole transaction. The `sql` object of a transaction still accepts statements after the transaction has ended.
 */
function postgresJsCaller(sql: PostgresJsExecutor, isOpen: () => boolean): SavepointExecutor {
  const tx = withSavepoints(postgresJsExecutor(sql), isOpen)
  // In postgres.js, only transactions have the `savepoint` method.
  if (!sql.savepoint) return tx
  return {
    ...tx,
    inSavepoint: <T>(work: (tx: Executor) => Promise<T>) =>
      (sql.savepoint!((inner) => work(postgresJsExecutor(inner))) as Promise<T>).catch((error) => {
        throw sqlstateOf(error) === sqlstate.noActiveTransaction ? noTransactionError() : error
      }),
  }
}

function noTransactionError(): UsageError {
  return notOpenError('a client without an open transaction', 'a client on which you have run `begin`')
}
