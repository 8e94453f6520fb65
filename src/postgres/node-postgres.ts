import { addressOf, checkUrl } from './address.js'
import { Patience } from './deadline.js'
import { DatabaseError } from './errors.js'
import { ignore, listen, OwnPool } from './own-pool.js'
import type { Connection, Database, Executor } from './port.js'
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
  query(config: { text: string; query_timeout: number }): Promise<{ rows: unknown[]; command?: string }>
  release(error?: Error | boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

export interface PgClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[]; command?: string }>
}

export function pgExecutor(client: PgClient): Executor {
  return {
    async query<Row>(text: string, values?: readonly unknown[]) {
      try {
        return (await client.query(text, values as unknown[])).rows as Row[]
      } catch (error) {
        throw translate(error)
      }
    },
  }
}

/**
 * A database behind pools that Holdfast opens, and closes, itself: one for statements, one for transactions. Work inside
 * a transaction may ask Holdfast for something else, and must not have taken the last connection for it.
 */
export function openPgPool(connection: Connection, mostConnections = 5): Database {
  if (connection.connectionString) checkUrl(connection.connectionString, 'url')
  const statements = new OwnPool(connection, { max: mostConnections })
  let transactions: OwnPool | undefined
  let isClosed = false
  return fromPgPool(statements.pool, connection, {
    async close() {
      isClosed = true
      await Promise.all([statements.close(), transactions?.close()])
    },
    fellSilent: () => statements.fellSilent(),
    transactions() {
      // After the end one that has ended, too, and says so.
      if (isClosed) return statements.pool
      transactions ??= new OwnPool(connection, { max: 2 * mostConnections })
      return transactions.pool
    },
  })
}

/** What node-postgres says when `query_timeout` is over; it has no code. */
const readTimedOut = 'Query read timeout'

const rolledBack =
  'The transaction was rolled back at its commit, because one of its statements had failed (SQLSTATE 25P02)'

/** A database behind the user's own pool. */
export function fromPgPool(
  pool: PgPool,
  connection = connectionOf(pool),
  own: { close(): Promise<void>; fellSilent?(): void; transactions?(): PgPool } = { async close() {} },
): Database {
  // Without a listener, an idle connection that dies takes the whole process with it. Once for each pool, and for good: its
  // end does not wait for its connections.
  pool.off('error', ignore)
  pool.on('error', ignore)
  pool.on('acquire', listen)
  const { query } = pgExecutor(pool)
  const patience = new Patience()
  return {
    query<Row>(text: string, values?: readonly unknown[], withinMs?: number) {
      if (withinMs === undefined) return query<Row>(text, values)
      return patience.wait(withinMs, async (ms) => {
        try {
          return (await pool.query({ text, query_timeout: ms }, values as unknown[])).rows as Row[]
        } catch (error) {
          if ((error as Error).message === readTimedOut) own.fellSilent?.()
          throw translate(error)
        }
      })
    },
    connection,
    address: addressOf(connection),
    hurry: () => patience.hurry(),
    async close() {
      await own.close()
      pool.off('acquire', listen)
    },
    async transaction<T>(work: (tx: Executor) => Promise<T>, withinMs?: number) {
      const transactions = own.transactions?.() ?? pool
      const client = await transactions.connect().catch((error) => Promise.reject(translate(error)))
      let broken: Error | undefined
      const onError = (error: Error) => {
        broken = error
      }
      client.on('error', onError)
      const { query } = pgExecutor(client)
      // One statement after the other, as the driver wants them.
      let last: Promise<unknown> = Promise.resolve()
      let unanswered = 0
      const inTurn = <T>(ask: () => Promise<T>): Promise<T> => {
        unanswered++
        const answer = last.then(ask)
        last = answer.then(
          () => unanswered--,
          () => unanswered--,
        )
        return answer
      }
      const tx: Executor = {
        query: <Row>(text: string, values?: readonly unknown[]) => inTurn(() => query<Row>(text, values)),
      }
      const step = async (text: string) => {
        try {
          if (withinMs === undefined) return await inTurn(() => client.query(text))
          return await patience.wait(withinMs, (ms) => inTurn(() => client.query({ text, query_timeout: ms })))
        } catch (error) {
          throw translate(error)
        }
      }
      try {
        await step('begin')
        const result = await work(tx)
        // A transaction in which a statement failed, and the work went on, is rolled back by its commit.
        const { command } = await step('commit')
        if (command === 'ROLLBACK') throw new DatabaseError(rolledBack, '25P02')
        return result
      } catch (error) {
        // When a statement has no answer yet, or even the rollback fails, the connection must not go back into the pool;
        // the server rolls back when it ends.
        if (unanswered > 0) broken ??= error as Error
        else {
          await step('rollback').catch((rollbackError) => {
            broken ??= rollbackError as Error
          })
        }
        throw error
      } finally {
        client.off('error', onError)
        client.release(broken)
      }
    },
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
