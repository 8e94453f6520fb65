import { ClosedError } from '../base/index.js'
import { addressOf, checkUrl } from './address.js'
import type { Connection, Database, Executor } from './database.js'
import { DatabaseError, DatabaseUnreachableError } from './errors.js'
import { ignore, ignoreErrors, OwnPool } from './own-pool.js'
import { explainReadOnly } from './read-only.js'
import { ResponseTimeout } from './response-timeout.js'
import { translate } from './sqlstate.js'

/** What Holdfast needs of a pool of node-postgres, so that any version of it fits. */
export interface PgPool {
  connect(): Promise<PgPoolClient>
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
  query(config: { text: string; query_timeout: number }, values?: unknown[]): Promise<{ rows: unknown[] }>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'acquire', listener: (client: PgPoolClient) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'acquire', listener: (client: PgPoolClient) => void): unknown
  readonly options: object
}

export interface PgPoolClient extends PgClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[]; command?: string }>
  query(
    config: { text: string; query_timeout: number },
    values?: unknown[],
  ): Promise<{ rows: unknown[]; command?: string }>
  release(error?: Error | boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

export interface PgClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[]; command?: string }>
}

export function pgExecutor(client: PgClient, connection?: Connection): Executor {
  return {
    async query<Row>(text: string, values?: readonly unknown[]) {
      try {
        return (await client.query(text, values as unknown[])).rows as Row[]
      } catch (error) {
        throw translate(error, connection)
      }
    },
  }
}

/**
 * A database behind pools that Holdfast opens, and closes, itself: one for statements, one for transactions. Work inside
 * a transaction may ask Holdfast for something else, and must not have taken the last connection for it.
 */
export function openPgPool(connection: Connection, maxConnections = 5): Database {
  if (connection.connectionString) checkUrl(connection.connectionString, 'url')
  const statements = new OwnPool(connection, { max: maxConnections })
  let transactions: OwnPool | undefined
  let isClosed = false
  return fromPgPool(statements.pool, connection, {
    async close() {
      isClosed = true
      await Promise.all([statements.close(), transactions?.close()])
    },
    closeIdleConnections: () => statements.closeIdleConnections(),
    transactions() {
      // After the end one that has ended, too, and says so.
      if (isClosed) return statements.pool
      transactions ??= new OwnPool(connection, { max: 2 * maxConnections })
      return transactions.pool
    },
  })
}

/** What node-postgres says when `query_timeout` is over; it has no code. */
const readTimeoutMessage = 'Query read timeout'

const rolledBackMessage =
  'The transaction was rolled back at its commit, because one of its statements had failed (SQLSTATE 25P02)'

/** A server with LLVM compiles a statement whose estimated cost is high: for seconds, where it runs for milliseconds. */
export const withoutJit = 'set local jit = off'

/**
 * What a transaction of Holdfast's own sets for its large statements. The settings end with the transaction, so they reach no other
 * statement: neither the user's own on the same pool, nor those of other clients behind a pooler in transaction mode.
 */
export const localSettings = `${withoutJit}; set local search_path = pg_catalog, pg_temp`

/** A database behind the user's own pool. */
export function fromPgPool(
  pool: PgPool,
  connection = connectionOf(pool),
  ownPools: { close(): Promise<void>; closeIdleConnections?(): void; transactions?(): PgPool } = { async close() {} },
): Database {
  const stopListening = listenOnce(pool)
  const { query } = pgExecutor(pool, connection)
  const responseTimeout = new ResponseTimeout()
  let isClosed = false
  // A pool of the user stays open. An instance that was closed must not use it either.
  const checkOpen = () => {
    if (isClosed) throw new ClosedError('This instance')
  }
  const translateFailure = (error: unknown) => {
    if ((error as Error).message === readTimeoutMessage) ownPools.closeIdleConnections?.()
    return translate(error, connection)
  }
  const throwExplained = async (error: unknown): Promise<never> => {
    throw await explainReadOnly(error, database)
  }

  /** `statement` asks on the connection of the transaction, within `withinMs` if given. */
  async function inTransaction<T>(
    from: PgPool,
    begin: string,
    work: (tx: Executor, statement: Executor['query']) => Promise<T>,
    withinMs?: number,
  ): Promise<T> {
    checkOpen()
    const client = await from.connect().catch((error) => Promise.reject(translateFailure(error)))
    let broken: Error | undefined
    const onError = (error: Error) => {
      broken = error
    }
    client.on('error', onError)
    const { query } = pgExecutor(client, connection)
    // One statement after the other, as the driver wants them.
    let last: Promise<unknown> = Promise.resolve()
    let unanswered = 0
    const serialize = <T>(ask: () => Promise<T>): Promise<T> => {
      unanswered++
      const answer = last.then(ask)
      last = answer.then(
        () => unanswered--,
        () => unanswered--,
      )
      return answer
    }
    const tx: Executor = {
      query: <Row>(text: string, values?: readonly unknown[]) => serialize(() => query<Row>(text, values)),
    }
    const step = async (text: string, values?: unknown[]) => {
      try {
        if (withinMs === undefined) return await serialize(() => client.query(text, values))
        return await responseTimeout.run(withinMs, (ms) =>
          serialize(() => client.query({ text, query_timeout: ms }, values)),
        )
      } catch (error) {
        const reason = translateFailure(error)
        // A connection that has not answered is not asked to roll back.
        if (reason instanceof DatabaseUnreachableError) broken ??= reason
        throw reason
      }
    }
    const statement = async <Row>(text: string, values?: readonly unknown[]) =>
      (await step(text, values as unknown[])).rows as Row[]
    try {
      await step(begin)
      const result = await work(tx, statement)
      // A transaction in which a statement failed, and the work went on, is rolled back by its commit.
      const { command } = await step('commit')
      if (command === 'ROLLBACK') throw new DatabaseError(rolledBackMessage, '25P02')
      return result
    } catch (error) {
      // When a statement has no answer yet, or even the rollback fails, the connection must not go back into the pool;
      // the server rolls back when it ends.
      if (unanswered > 0) broken ??= error as Error
      else if (!broken) {
        await step('rollback').catch((rollbackError) => {
          broken ??= rollbackError as Error
        })
      }
      throw error
    } finally {
      client.off('error', onError)
      client.release(broken)
    }
  }

  /** One statement in a transaction with `localSettings`. */
  function inOwnTransaction<Row>(
    begin: string,
    text: string,
    values?: readonly unknown[],
    withinMs?: number,
  ): Promise<Row[]> {
    const settled = `${begin}; ${localSettings}`
    const ask = (beginning: string, ms?: number) =>
      inTransaction(pool, beginning, (_, statement) => statement<Row>(text, values), ms)
    if (withinMs === undefined) return ask(settled)
    // The client gives up first: its error is the one that tells. The server need not work for nobody.
    return responseTimeout.run(withinMs, (ms) =>
      ask(`${settled}; set local statement_timeout = ${Math.ceil(2 * ms)}`, ms),
    )
  }

  const database: Database = {
    async query<Row>(text: string, values?: readonly unknown[], withinMs?: number) {
      checkOpen()
      if (withinMs === undefined) return query<Row>(text, values).catch(throwExplained)
      const answer = responseTimeout.run(withinMs, async (ms) => {
        try {
          return (await pool.query({ text, query_timeout: ms }, values as unknown[])).rows as Row[]
        } catch (error) {
          throw translateFailure(error)
        }
      })
      return answer.catch(throwExplained)
    },
    read: (text, values, withinMs) => inOwnTransaction('begin read only', text, values, withinMs),
    write: <Row>(text: string, values?: readonly unknown[], withinMs?: number) =>
      inOwnTransaction<Row>('begin', text, values, withinMs).catch(throwExplained),
    transaction: <T>(work: (tx: Executor) => Promise<T>, withinMs?: number) =>
      inTransaction(ownPools.transactions?.() ?? pool, 'begin', work, withinMs).catch(throwExplained),
    connection,
    address: addressOf(connection),
    shortenTimeouts: () => responseTimeout.shorten(),
    async close() {
      isClosed = true
      await ownPools.close()
      stopListening()
    },
  }
  return database
}

/** How many databases there are on each pool. */
const databasesOnPool = new WeakMap<PgPool, number>()

/**
 * Listens on a pool once, however many instances share it: Node.js warns of the eleventh listener. Returns how to stop, which the
 * last of them does.
 */
function listenOnce(pool: PgPool): () => void {
  const count = (by: 1 | -1) => {
    const open = (databasesOnPool.get(pool) ?? 0) + by
    databasesOnPool.set(pool, open)
    return open
  }
  // Without a listener, an idle connection that dies takes the whole process with it. Once for each pool, and for good: its
  // end does not wait for its connections.
  pool.off('error', ignore)
  pool.on('error', ignore)
  if (count(1) === 1) pool.on('acquire', ignoreErrors)
  let isOver = false
  return () => {
    if (isOver) return
    isOver = true
    if (count(-1) === 0) pool.off('acquire', ignoreErrors)
  }
}

const connectionSettings = ['connectionString', 'host', 'port', 'user', 'password', 'database', 'ssl'] as const

function connectionOf(pool: PgPool): Connection {
  const options = pool.options as Record<string, unknown>
  return Object.fromEntries(
    connectionSettings
      .filter((setting) => options[setting] !== undefined)
      .map((setting) => [setting, options[setting]]),
  )
}
