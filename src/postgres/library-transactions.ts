import { UsageError } from '../base/index.js'
import type { PgClient } from './node-postgres.js'
import type { PostgresJsExecutor } from './postgres-js.js'

/**
 * The transactions of the libraries with which people write their SQL. Beneath most of them lies a client of one of our two
 * drivers, and with that we speak: what a library does to results, names in camel case or dates of its own, is not for ours.
 * The types say only what we ask of each, so that none of them needs to be installed, and any version fits that has it.
 */
export type LibraryTransaction =
  | DrizzleTransaction
  | KnexTransaction
  | KyselyTransaction
  | PrismaTransaction
  | TypeOrmTransaction

/** What `db.transaction` of Drizzle hands out, over node-postgres or postgres.js. */
interface DrizzleTransaction {
  readonly _: { readonly session: object }
  execute(query: never): unknown
  rollback(): never
}

/** What `knex.transaction` hands out. */
interface KnexTransaction {
  readonly isTransaction?: boolean
  // biome-ignore lint/suspicious/noExplicitAny: what Knex itself says
  readonly client: any
  raw: unknown
}

/** What `db.transaction().execute` or `db.startTransaction()` of Kysely hand out. */
interface KyselyTransaction {
  readonly isTransaction: boolean
  withoutPlugins(): { executeQuery(query: never): Promise<{ readonly rows: unknown[] }> }
}

/** What `prisma.$transaction` hands to the function that it is given. */
interface PrismaTransaction {
  /** The client of Prisma has it, a transaction has not. */
  readonly $connect?: never
  $queryRawUnsafe<T>(text: string, ...values: unknown[]): PromiseLike<T>
}

/** What `dataSource.transaction` of TypeORM hands out, or a query runner of it. */
type TypeOrmTransaction = TypeOrmManager | TypeOrmRunner

interface TypeOrmManager {
  readonly queryRunner?: TypeOrmRunner | undefined
}

interface TypeOrmRunner {
  readonly isTransactionActive: boolean
  // biome-ignore lint/suspicious/noExplicitAny: what TypeORM itself says
  connect(): Promise<any>
}

/** What a transaction of a library runs its statements with; undefined when it is none of those that we know. */
export function driverClientOf(given: unknown): PgClient | PostgresJsExecutor | undefined {
  if (given === null || !['object', 'function'].includes(typeof given)) return undefined
  return findDriverClient(given as object)
}

function findDriverClient(given: object): PgClient | PostgresJsExecutor | undefined {
  if (has(given, '$queryRawUnsafe')) return prismaClient(given as PrismaTransaction)
  if (has(given, 'withoutPlugins')) return kyselyClient(given as KyselyTransaction)
  if (has(given, 'raw') && 'client' in given) return knexClient(given as KnexTransaction)
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
    throw noTransactionError('Drizzle', 'the tx that db.transaction hands to your function')
  return client
}

function knexClient(tx: KnexTransaction): PgClient {
  if (!tx.isTransaction) throw noTransactionError('Knex', 'the trx that knex.transaction hands to your function')
  return connectingClient(() => tx.client.acquireConnection())
}

function typeOrmClient(runner: TypeOrmRunner | undefined): PgClient {
  if (!runner?.isTransactionActive) {
    throw noTransactionError('TypeORM', 'the manager that dataSource.transaction hands to your function')
  }
  return connectingClient(() => runner.connect())
}

/** A library that hands out its own client of node-postgres for the asking. */
function connectingClient(connect: () => Promise<PgClient>): PgClient {
  return { query: async (text, values) => (await connect()).query(text, values) }
}

function kyselyClient(tx: KyselyTransaction): PgClient {
  if (!tx.isTransaction)
    throw noTransactionError('Kysely', 'the trx that db.transaction().execute hands to your function')
  const plain = tx.withoutPlugins()
  return {
    query(text, values = []) {
      const node = { kind: 'RawNode', sqlFragments: [text], parameters: [] }
      return plain.executeQuery({ sql: text, parameters: values, query: node, queryId } as never)
    },
  }
}

const queryId = { queryId: 'holdfast' }

function prismaClient(tx: PrismaTransaction): PgClient {
  if (has(tx, '$connect')) throw noTransactionError('Prisma', 'the tx that prisma.$transaction hands to your function')
  return {
    async query(text, values = []) {
      try {
        return { rows: await tx.$queryRawUnsafe<unknown[]>(text, ...values) }
      } catch (error) {
        throw serverErrorOf(error)
      }
    },
  }
}

/** Prisma puts what the server said behind a code of its own. */
function serverErrorOf(error: unknown): unknown {
  const { cause } =
    (error as { meta?: { driverAdapterError?: { cause?: PrismaCause } } }).meta?.driverAdapterError ?? {}
  if (!cause?.originalCode) return error
  return Object.assign(new Error(cause.originalMessage, { cause: error }), { code: cause.originalCode })
}

interface PrismaCause {
  readonly originalCode?: string
  readonly originalMessage?: string
}

function noTransactionError(library: string, wanted: string): UsageError {
  return notOpenError(`${library} outside of a transaction`, wanted)
}

/** What the caller passed in the place of an open transaction, and what to pass. */
export function notOpenError(got: string, wanted: string): UsageError {
  return new UsageError(`Expected an open transaction, got ${got}`, `Pass ${wanted}.`)
}
