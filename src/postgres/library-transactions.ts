import { memberOf, messageOf, UsageError } from '../base/index.js'
import type { PgClient } from './node-postgres.js'
import type { PostgresJsExecutor } from './postgres-js.js'

/**
 * Supports transactions that SQL libraries open. Most libraries use a client from one of the two drivers that Holdfast supports. Holdfast
 * uses that client directly, so that the library's conversions (camel case names, custom date types) do not apply. The types contain only
 * the members that Holdfast uses, so the libraries need not be installed, and any version with these members works.
 */
export type LibraryTransaction =
  | DrizzleTransaction
  | KnexTransaction
  | KyselyTransaction
  | MikroOrmTransaction
  | PrismaTransaction
  | TypeOrmTransaction

/** The `tx` of Drizzle's `db.transaction`, with node-postgres or postgres.js. */
export interface DrizzleTransaction {
  readonly _: { readonly session: object }
  execute(query: never): unknown
  rollback(): never
}

/** The `trx` of Knex's `knex.transaction`. */
export interface KnexTransaction {
  readonly isTransaction?: boolean
  isCompleted?(): boolean
  // biome-ignore lint/suspicious/noExplicitAny: the type that Knex declares
  readonly client: any
  raw: unknown
}

/** The `trx` of Kysely's `db.transaction().execute` or `db.startTransaction()`. */
export interface KyselyTransaction {
  readonly isTransaction: boolean
  /** Only transactions that `db.startTransaction()` returns have these properties. */
  readonly isCommitted?: boolean
  readonly isRolledBack?: boolean
  withoutPlugins(): { executeQuery(query: never): Promise<{ readonly rows: unknown[] }> }
}

/** The `em` of MikroORM's `em.transactional`. */
export interface MikroOrmTransaction {
  isInTransaction(): boolean
  // biome-ignore lint/suspicious/noExplicitAny: the type that MikroORM declares
  getTransactionContext(): any
}

/** The `tx` of Prisma's `prisma.$transaction`. */
export interface PrismaTransaction {
  /** The Prisma client has `$connect`. A Prisma transaction does not. */
  readonly $connect?: never
  $queryRawUnsafe<T>(text: string, ...values: unknown[]): PromiseLike<T>
}

/** The manager of TypeORM's `dataSource.transaction`, or the manager's query runner. */
export type TypeOrmTransaction = TypeOrmManager | TypeOrmRunner

export interface TypeOrmManager {
  readonly queryRunner?: TypeOrmRunner | undefined
}

export interface TypeOrmRunner {
  readonly isTransactionActive: boolean
  // biome-ignore lint/suspicious/noExplicitAny: the type that TypeORM declares
  connect(): Promise<any>
}

/** Returns the driver client that a supported library's transaction uses. Returns undefined for any other value. */
export function driverClientOf(given: unknown): PgClient | PostgresJsExecutor | undefined {
  if ((typeof given !== 'object' && typeof given !== 'function') || given === null) return undefined
  if (has(given, '$queryRawUnsafe')) return prismaClient(given as PrismaTransaction)
  if (has(given, 'withoutPlugins')) return kyselyClient(given as KyselyTransaction)
  if (has(given, 'raw') && 'client' in given) return knexClient(given as KnexTransaction)
  if (has(given, 'getTransactionContext')) return mikroOrmClient(given as MikroOrmTransaction)
  if (has(given, 'getRepository')) return typeOrmClient((given as TypeOrmManager).queryRunner)
  if ('isTransactionActive' in given) return typeOrmClient(given as TypeOrmRunner)
  if (has(given, 'execute') && '_' in given) return drizzleClient(given as DrizzleTransaction)
  return undefined
}

function has(given: object, method: string): boolean {
  return typeof (given as Record<string, unknown>)[method] === 'function'
}

function drizzleClient(tx: DrizzleTransaction): PgClient | PostgresJsExecutor {
  const { client } = tx._.session as { client?: PgClient | PostgresJsExecutor }
  if (!has(tx, 'rollback') || !client)
    throw noTransactionError('Drizzle', 'the tx that db.transaction passes to your function')
  return client
}

function knexClient(tx: KnexTransaction): PgClient {
  if (!tx.isTransaction) throw noTransactionError('Knex', 'the trx that knex.transaction passes to your function')
  return clientOf(tx, () =>
    connectingClient(() => {
      if (tx.isCompleted?.()) throw endedError('Knex')
      return tx.client.acquireConnection()
    }),
  )
}

function typeOrmClient(runner: TypeOrmRunner | undefined): PgClient {
  if (!runner?.isTransactionActive) {
    throw noTransactionError('TypeORM', 'the manager that dataSource.transaction passes to your function')
  }
  return clientOf(runner, () =>
    connectingClient(() => {
      if (!runner.isTransactionActive) throw endedError('TypeORM')
      return runner.connect()
    }),
  )
}

/** Clients for transactions of libraries whose driver client is not used directly. */
const clients = new WeakMap<object, PgClient>()

/** Returns the same client for each call with a transaction, because calls on one client run one after the other. */
function clientOf(tx: object, create: () => PgClient): PgClient {
  const known = clients.get(tx)
  if (known) return known
  const client = create()
  clients.set(tx, client)
  return client
}

function connectingClient(connect: () => Promise<PgClient>): PgClient {
  return { query: async (text, values) => (await connect()).query(text, values) }
}

function kyselyClient(tx: KyselyTransaction): PgClient {
  if (!tx.isTransaction)
    throw noTransactionError('Kysely', 'the trx that db.transaction().execute passes to your function')
  const plain = tx.withoutPlugins()
  return clientOf(tx, () => ({
    async query(text, values = []) {
      if (tx.isCommitted || tx.isRolledBack) throw endedError('Kysely')
      const node = { kind: 'RawNode', sqlFragments: [text], parameters: [] }
      try {
        return await plain.executeQuery({ sql: text, parameters: values, query: node, queryId } as never)
      } catch (error) {
        // The trx of db.transaction().execute does not show its state.
        throw messageOf(error).startsWith('Transaction is already ') ? endedError('Kysely') : error
      }
    },
  }))
}

function mikroOrmClient(em: MikroOrmTransaction): PgClient | PostgresJsExecutor | undefined {
  if (!em.isInTransaction())
    throw noTransactionError('MikroORM', 'the em that em.transactional passes to your function')
  return driverClientOf(em.getTransactionContext())
}

const queryId = { queryId: 'holdfast' }

function prismaClient(tx: PrismaTransaction): PgClient {
  if (has(tx, '$connect')) throw noTransactionError('Prisma', 'the tx that prisma.$transaction passes to your function')
  return clientOf(tx, () => ({
    async query(text, values = []) {
      try {
        return { rows: await tx.$queryRawUnsafe<unknown[]>(text, ...values) }
      } catch (error) {
        throw serverErrorOf(error)
      }
    },
  }))
}

/** Returns the original error, which Prisma wraps in an error with its own code. */
function serverErrorOf(error: unknown): unknown {
  // Prisma uses this code for transactions that have ended or timed out.
  if (memberOf(error, 'code') === 'P2028') return endedError('Prisma')
  const { cause } =
    (error as { meta?: { driverAdapterError?: { cause?: PrismaCause } } }).meta?.driverAdapterError ?? {}
  if (!cause?.originalCode) return error
  return Object.assign(new Error(cause.originalMessage, { cause: error }), { code: cause.originalCode })
}

export interface PrismaCause {
  readonly originalCode?: string
  readonly originalMessage?: string
}

function noTransactionError(library: string, wanted: string): UsageError {
  return notOpenError(`${library} outside a transaction`, wanted)
}

function endedError(library: string): UsageError {
  return new UsageError(
    `Expected an open transaction, got a transaction of ${library} that has ended`,
    'Await every call that uses the transaction before the transaction ends.',
  )
}

export function notOpenError(got: string, wanted: string): UsageError {
  return new UsageError(`Expected an open transaction, got ${got}`, `Pass ${wanted}.`)
}
