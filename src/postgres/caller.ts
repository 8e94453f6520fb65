import { describe, type UsageError } from '../base/index.js'
import type { Executor } from './database.js'
import { driverClientOf, type LibraryTransaction, notOpenError } from './library-transactions.js'
import { type PgClient, pgExecutor } from './node-postgres.js'
import { type PostgresJsExecutor, postgresJsExecutor } from './postgres-js.js'
import { sqlstate, sqlstateOf } from './sqlstate.js'

/**
 * An open transaction of the caller: a client of node-postgres (or any object with its `query`) on which `begin` was run, the
 * `sql` that `begin` of postgres.js hands out, or the transaction of Drizzle, Knex, Kysely, Prisma or TypeORM. A pool is none:
 * each of its statements may run on another connection.
 */
export type CallerTransaction = CallerClient | CallerSql | LibraryTransaction

/** A client of node-postgres. Its pool has a `query`, too, and is told apart by its `totalCount`. */
type CallerClient = PgClient & { readonly totalCount?: never }

/** The `sql` of a transaction, or of `sql.reserve`. The `sql` outside of one is told apart by its `begin`. */
type CallerSql = PostgresJsExecutor & ({ readonly begin?: never } | { release(): void })

export interface CallerExecutor extends Executor {
  /** Runs `work` behind a savepoint: when it throws, what it did is undone and the transaction can go on. */
  inSavepoint<T>(work: (tx: Executor) => Promise<T>): Promise<T>
}

/**
 * Outside of a transaction PostgreSQL refuses it (25P01). Inside it is one round trip and leaves nothing behind but the weakest
 * lock on a catalog that nobody changes; a savepoint would have to be released by a second statement.
 */
const openCheck = 'lock table pg_catalog.pg_am in access share mode'

/** The transactions that Holdfast itself hands to the functions of its users: open for as long as they take statements. */
const ownTransactions = new WeakSet<object>()

/** Marks a transaction that Holdfast hands out, so that nobody asks the server whether it is open. */
export function markOwnTransaction<T extends object>(tx: T): T {
  ownTransactions.add(tx)
  return tx
}

/**
 * The transaction of the caller, behind our port. Throws a `UsageError` when the caller passes something else, such as a pool.
 * A client on which no transaction is open throws it with the first query, before anything is written.
 *
 * What we ask there names its columns in one word each, which no library puts in another case, and has no column of type
 * void, which Prisma does not know.
 */
export function executorOf(client: CallerTransaction): CallerExecutor {
  const driverClient = driverClientOf(client)
  const given = (driverClient ?? client) as Partial<PgClient & PostgresJsExecutor & RootSql> | null | undefined
  if (isPool(given)) {
    throw notOpenError(
      'a pool of node-postgres',
      'a client of the pool (await pool.connect()), after `begin` was run on it',
    )
  }
  if (typeof given?.unsafe === 'function') {
    if (typeof given.begin === 'function' && typeof given.savepoint !== 'function') {
      throw notOpenError(
        'the sql of postgres.js outside of a transaction',
        'the sql that sql.begin hands to your function',
      )
    }
    return postgresJsCaller(given as PostgresJsExecutor)
  }
  if (typeof given?.query === 'function') {
    const isOpen = () => isKnownOpen(given) ?? (driverClient !== undefined || ownTransactions.has(given))
    return withSavepoints(pgExecutor(given as PgClient), isOpen)
  }
  throw notOpenError(
    describe(client),
    'the client on which you ran `begin`, or what your library hands out for a transaction',
  )
}

interface RootSql {
  readonly begin: unknown
}

function isPool(given: object | null | undefined): boolean {
  return typeof given === 'object' && given !== null && 'totalCount' in given && 'idleCount' in given
}

/**
 * Whether the client itself knows of an open transaction: node-postgres, from 8.21 on, keeps what the server said with its last
 * answer. Undefined when it does not tell, such as older ones and wrappers.
 */
function isKnownOpen(client: object): boolean | undefined {
  const { getTransactionStatus } = client as { getTransactionStatus?: unknown }
  if (typeof getTransactionStatus !== 'function') return undefined
  try {
    const status: unknown = getTransactionStatus.call(client)
    // In a transaction that has failed, the server itself refuses the statement and says why.
    return status === 'T' || status === 'E'
  } catch {
    // With an older pg-native beneath it has no answer.
    return undefined
  }
}

/** `isOpen`: whether the transaction is known to be open, without a question to the server. */
function withSavepoints(tx: Executor, isOpen: () => boolean): CallerExecutor {
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
  // It hands out a savepoint with each transaction, and with nothing else.
  const tx = withSavepoints(postgresJsExecutor(sql), () => sql.savepoint !== undefined)
  if (!sql.savepoint) return tx
  return {
    ...tx,
    inSavepoint: <T>(work: (tx: Executor) => Promise<T>) =>
      sql.savepoint!((inner) => work(postgresJsExecutor(inner))) as Promise<T>,
  }
}

function noTransactionError(): UsageError {
  return notOpenError('a client on which no transaction is open', 'the client after you ran `begin` on it')
}
