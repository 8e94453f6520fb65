import type { Socket } from 'node:net'
import pg from 'pg'
import { addressOf, checkUrl } from './address.js'
import { withinDeadline } from './deadline.js'
import { DatabaseError } from './errors.js'
import { HostsClient } from './hosts.js'
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

/** Gives up a connection that is not opened in time. The pool's own option would also end waiting for a free one. */
class HurriedClient extends HostsClient {
  constructor(config?: pg.ClientConfig) {
    // The pool hides the password from whoever copies its options.
    const password = config?.password
    super({ ...config, ...(password ? { password } : {}), connectionTimeoutMillis: 10_000, keepAlive: true })
  }
}

/**
 * A database behind pools that Holdfast opens, and closes, itself: one for statements, one for transactions. Work inside
 * a transaction may ask Holdfast for something else, and must not have taken the last connection for it.
 */
export function openPgPool(connection: Connection, mostConnections = 5): Database {
  if (connection.connectionString) checkUrl(connection.connectionString, 'url')
  const statements = new OwnPool(connection, mostConnections)
  let transactions: OwnPool | undefined
  return fromPgPool(statements.pool, connection, {
    async close() {
      await Promise.all([statements.close(), transactions?.close()])
    },
    // Each of them would cost the same time to be found out one by one.
    fellSilent: () => statements.cutIdle(),
    transactions() {
      transactions ??= new OwnPool(connection, 2 * mostConnections)
      return transactions.pool
    },
  })
}

class OwnPool {
  readonly pool: pg.Pool
  readonly #clients = new Set<pg.PoolClient>()
  readonly #idle = new Set<pg.PoolClient>()

  constructor(connection: Connection, mostConnections: number) {
    this.pool = new pg.Pool({
      ...connection,
      Client: HurriedClient,
      max: mostConnections,
      idleTimeoutMillis: 10_000,
      application_name: 'holdfast',
    })
    // For good: its end does not wait for its connections, and one that the server ends meanwhile must not crash us.
    this.pool.on('error', () => {})
    this.pool.on('connect', (client) => this.#clients.add(client))
    this.pool.on('acquire', (client) => {
      listen(client)
      this.#idle.delete(client)
    })
    this.pool.on('release', (_, client) => this.#idle.add(client))
    this.pool.on('remove', (client) => {
      this.#clients.delete(client)
      this.#idle.delete(client)
    })
  }

  cutIdle(): void {
    for (const client of this.#idle) cut(client)
  }

  async close(): Promise<void> {
    // Nobody needs an answer any more: what is still out has fallen silent, or was left behind.
    const patience = setTimeout(() => this.#clients.forEach(cut), closeWithinMs)
    await this.pool.end()
    clearTimeout(patience)
    // A goodbye that a silent network never answers must not keep the process from ending.
    for (const { connection } of this.#clients) (connection.stream as Socket).unref()
  }
}

/**
 * Between a pool and whoever asked it for a connection there is a moment in which nobody listens. When the server ends the
 * session in the same packet, the process would end, too.
 */
function listen(client: Pick<PgPoolClient, 'on' | 'off'>): void {
  client.off('error', ignore)
  client.on('error', ignore)
}

/** What failed says so itself. */
const ignore = () => {}

function cut(client: pg.PoolClient): void {
  ;(client.connection.stream as Socket).destroy()
}

const closeWithinMs = 2_000

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
  // Without a listener, an idle connection that dies takes the whole process with it.
  pool.on('error', ignore)
  pool.on('acquire', listen)
  const { query } = pgExecutor(pool)
  return {
    query<Row>(text: string, values?: readonly unknown[], withinMs?: number) {
      if (withinMs === undefined) return query<Row>(text, values)
      const answer = pool.query({ text, query_timeout: withinMs }, values as unknown[]).then(
        ({ rows }) => rows as Row[],
        (error) => {
          if (error.message === readTimedOut) own.fellSilent?.()
          throw translate(error)
        },
      )
      // The time of the driver begins when it has a connection: one may not be free, or not be had.
      return withinDeadline(answer, 2 * withinMs)
    },
    connection,
    address: addressOf(connection),
    async close() {
      await own.close()
      pool.off('error', ignore)
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
          return await withinDeadline(
            inTurn(() => client.query({ text, query_timeout: withinMs })),
            2 * withinMs,
          )
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
