import { ClosedError } from '../base/index.js'
import { addressOf, checkUrl } from './address.js'
import type { Connection, Database, Executor } from './database.js'
import { DatabaseError, DatabaseUnreachableError } from './errors.js'
import { ignore, ignoreErrors, OwnPool } from './own-pool.js'
import { explainReadOnly } from './read-only.js'
import { ResponseTimeout } from './response-timeout.js'
import { translate } from './sqlstate.js'
import { statementByText } from './statements.js'

/** The members of a node-postgres pool that Holdfast uses. Any version with these members works. */
export interface PgPool {
  connect(): Promise<PgPoolClient>
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
  query(
    config: { text: string; name?: string | undefined; query_timeout: number },
    values?: unknown[],
  ): Promise<{ rows: unknown[] }>
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
  /** Process ID of the session's backend, as the server or a pooler reported it when the connection was opened. */
  readonly processID?: number | null | undefined
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
 * Opens a database with two pools that Holdfast owns: one for statements and one for transactions. If work inside a transaction calls
 * Holdfast, that call needs a free connection. Therefore transactions have a separate pool.
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
      // Returns the closed pool after `close`, because the pool's own error states that the pool is closed.
      if (isClosed) return statements.pool
      transactions ??= new OwnPool(connection, { max: 2 * maxConnections })
      return transactions.pool
    },
  })
}

/** node-postgres's error message when `query_timeout` expires. The error has no code. */
const readTimeoutMessage = 'Query read timeout'

/** The prepared statement does not exist, already exists, or now returns different columns. */
const lostPreparation: readonly unknown[] = ['26000', '42P05', '0A000']

const rolledBackMessage =
  'The transaction was rolled back instead of committed, because one of its statements had failed (SQLSTATE 25P02)'

/** Turns off JIT, because a server with LLVM may spend seconds compiling a statement that looks expensive but runs in milliseconds. */
export const withoutJit = 'set local jit = off'

/**
 * Returns one statement with the settings of Holdfast's own transactions. They end with the transaction, so they affect neither the
 * user's statements on the same pool nor a pooler's other clients.
 *
 * `timeoutMs` limits each statement, and each time between two statements. If the network becomes silent between two statements, the server
 * then ends the session, so that the session's locks do not outlive the client by hours.
 */
export function localSettings(timeoutMs?: number): string {
  const timeouts =
    timeoutMs === undefined ? {} : { statement_timeout: timeoutMs, idle_in_transaction_session_timeout: timeoutMs }
  return `select ${setConfigs({ ...settings, ...timeouts }, { isLocal: true })}`
}

const settings = { jit: 'off', search_path: 'pg_catalog, pg_temp' }

function setConfigs(all: Readonly<Record<string, string | number>>, { isLocal }: { isLocal: boolean }): string {
  return Object.entries(all)
    .map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', ${isLocal})`)
    .join(', ')
}

/**
 * Applies a reader's settings to a session, and returns whether they were applied. Changes nothing if the statement
 * runs on a different backend than the one that was reported when the connection was opened, because a pooler would
 * pass the settings on to its other clients.
 */
async function becomeReader(client: PgPoolClient, withinMs: number): Promise<boolean> {
  const reader = { ...settings, default_transaction_read_only: 'on', statement_timeout: 2 * withinMs }
  const text = `select ${setConfigs(reader, { isLocal: false })} where pg_catalog.pg_backend_pid() = $1`
  return (await client.query({ text, query_timeout: withinMs }, [client.processID])).rows.length === 1
}

/** Pools that Holdfast owns. */
interface OwnPools {
  close(): Promise<void>
  closeIdleConnections?(): void
  transactions?(): PgPool
  /** Pool that only `read` uses. Its sessions keep the settings of `localSettings`, so a read is one statement. */
  readonly readers?: PgPool
}

/** Wraps the user's pool. */
export function fromPgPool(
  pool: PgPool,
  connection = connectionOf(pool),
  ownPools: OwnPools = { async close() {} },
): Database {
  const stopListening = listenOnce(pool)
  const { query } = pgExecutor(pool, connection)
  const responseTimeout = new ResponseTimeout()
  let preparesStatements = false
  let isClosed = false
  // The user's pool stays open after `close`, but a closed instance must not use it.
  const checkOpen = () => {
    if (isClosed) throw new ClosedError('This instance')
  }
  const translateFailure = (error: unknown) => {
    if ((error as Error).message === readTimeoutMessage) ownPools.closeIdleConnections?.()
    return translate(error, connection)
  }
  const throwExplained = async (error: unknown): Promise<never> => {
    throw await explainReadOnly(error, { read: readInTransaction })
  }

  /**
   * Runs `work` in a transaction. The `statement` function that `work` receives runs statements on the transaction's connection, each
   * within `withinMs` if it is given. `work` also receives the rows of the last statement in `begin`.
   */
  async function inTransaction<T>(
    from: PgPool,
    begin: string,
    work: (tx: Executor, statement: Executor['query'], beginRows: readonly unknown[]) => Promise<T>,
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
    // Queries run one after the other, because the driver deprecates concurrent queries on one client.
    let last: Promise<unknown> = Promise.resolve()
    let inFlight = 0
    const serialize = <T>(send: () => Promise<T>): Promise<T> => {
      inFlight++
      const result = last.then(send)
      const done = () => inFlight--
      last = result.then(done, done)
      return result
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
        // A connection that does not respond cannot run a rollback.
        if (reason instanceof DatabaseUnreachableError) broken ??= reason
        throw reason
      }
    }
    const statement = async <Row>(text: string, values?: readonly unknown[]) =>
      (await step(text, values as unknown[])).rows as Row[]
    try {
      // The driver returns an array of results for several statements.
      const beginResult = [await step(begin)].flat().at(-1)!
      const result = await work(tx, statement, beginResult.rows)
      // If a statement failed and the work continued, PostgreSQL rolls back at the commit.
      const { command } = await step('commit')
      if (command === 'ROLLBACK') throw new DatabaseError(rolledBackMessage, '25P02')
      return result
    } catch (error) {
      // If a statement is still in flight, or the rollback fails, the pool must discard the connection. The server then rolls back.
      if (inFlight > 0) broken ??= error as Error
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

  /** Whether each reader session has a reader's settings. */
  const readers = new WeakMap<PgPoolClient, boolean>()

  /**
   * Runs one statement on a session that has a reader's settings. Returns undefined if the settings could not be
   * applied to the session.
   */
  async function readAlone<Row>(from: PgPool, text: string, values: readonly unknown[] | undefined, withinMs: number) {
    checkOpen()
    const client = await from.connect().catch((error) => Promise.reject(translateFailure(error)))
    let broken: Error | undefined
    try {
      return await responseTimeout.run(withinMs, async (ms) => {
        if (!readers.has(client)) readers.set(client, await becomeReader(client, withinMs))
        if (!readers.get(client)) return undefined
        return (await client.query({ text, query_timeout: ms }, values as unknown[])).rows as Row[]
      })
    } catch (error) {
      const reason = translateFailure(error)
      if (reason instanceof DatabaseUnreachableError) broken = reason
      throw reason
    } finally {
      client.release(broken)
    }
  }

  /** Runs one statement in a transaction with the settings of `localSettings`. */
  function inOwnTransaction<Row>(
    begin: string,
    text: string,
    values?: readonly unknown[],
    withinMs?: number,
  ): Promise<Row[]> {
    const run = (beginning: string, ms?: number) =>
      inTransaction(pool, beginning, (_, statement) => statement<Row>(text, values), ms)
    if (withinMs === undefined) return run(`${begin}; ${localSettings()}`)
    // The client times out first, because its error is more specific. Then the server cancels the statement.
    return responseTimeout.run(withinMs, (ms) => run(`${begin}; ${localSettings(Math.ceil(2 * ms))}`, ms))
  }

  const readInTransaction: Database['read'] = (text, values, withinMs) =>
    inOwnTransaction('begin read only', text, values, withinMs)

  const database: Database = {
    async query<Row>(text: string, values?: readonly unknown[], withinMs?: number) {
      checkOpen()
      if (withinMs === undefined) return query<Row>(text, values).catch(throwExplained)
      const send = async (ms: number): Promise<Row[]> => {
        const name = preparesStatements ? statementByText(text)?.preparedAs : undefined
        try {
          return (await pool.query({ text, name, query_timeout: ms }, values as unknown[])).rows as Row[]
        } catch (error) {
          if (name === undefined || !lostPreparation.includes((error as { code?: string }).code)) {
            throw translateFailure(error)
          }
          // The statement has not been executed. Other code on the pool has dropped its preparation, for example with DISCARD ALL.
          preparesStatements = false
          return send(ms)
        }
      }
      return responseTimeout.run(withinMs, send).catch(throwExplained)
    },
    async read<Row>(text: string, values?: readonly unknown[], withinMs?: number) {
      const alone = ownPools.readers && withinMs !== undefined
      const rows = alone ? await readAlone<Row>(ownPools.readers!, text, values, withinMs) : undefined
      return rows ?? readInTransaction<Row>(text, values, withinMs)
    },
    write: <Row>(text: string, values?: readonly unknown[], withinMs?: number) =>
      inOwnTransaction<Row>('begin isolation level read committed', text, values, withinMs).catch(throwExplained),
    transaction: <T>(
      work: (tx: Executor, firstRows: readonly unknown[]) => Promise<T>,
      withinMs?: number,
      first?: string,
    ) => {
      const begin = ['begin isolation level read committed', first].filter(Boolean).join('; ')
      const from = ownPools.transactions?.() ?? pool
      return inTransaction(from, begin, (tx, _, rows) => work(tx, rows), withinMs).catch(throwExplained)
    },
    connection,
    // With this option, all clients of the pool would use the same object as their connection.
    hasOneConnection: (pool.options as { connection?: unknown }).connection !== undefined,
    address: addressOf(connection),
    shortenTimeouts: () => responseTimeout.shorten(),
    prepareStatements() {
      preparesStatements = true
    },
    async close() {
      isClosed = true
      await ownPools.close()
      stopListening()
    },
  }
  return database
}

/** Number of `Database` objects that use each pool. */
const databasesOnPool = new WeakMap<PgPool, number>()

/**
 * Adds one set of listeners to a pool, no matter how many instances share the pool, because Node.js warns about more than 10 listeners. The
 * returned function removes the listener for `acquire` when the last instance calls it.
 */
function listenOnce(pool: PgPool): () => void {
  const count = (by: 1 | -1) => {
    const open = (databasesOnPool.get(pool) ?? 0) + by
    databasesOnPool.set(pool, open)
    return open
  }
  // Without a listener, an error on an idle connection would end the process. The listener is never removed, because closing a pool does
  // not wait for its connections.
  pool.off('error', ignore)
  pool.on('error', ignore)
  if (count(1) === 1) pool.on('acquire', ignoreErrors)
  let isStopped = false
  return () => {
    if (isStopped) return
    isStopped = true
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
