import { addressOf } from './address.js'
import { withinDeadline } from './deadline.js'
import type { Connection, Database, Executor } from './port.js'
import { translate } from './sqlstate.js'

/** What Holdfast needs of postgres.js: the function `sql`, or the `sql` of one of its transactions. */
export interface PostgresJsExecutor {
  unsafe(text: string, values?: never[]): PromiseLike<readonly unknown[]>
  /** Only the `sql` of a transaction has it. */
  savepoint?<T>(work: (tx: PostgresJsExecutor) => Promise<T>): Promise<unknown>
}

export interface PostgresJs extends PostgresJsExecutor {
  begin<T>(work: (tx: PostgresJsExecutor) => Promise<T>): Promise<unknown>
  readonly options: {
    host: string[]
    port: number[]
    user: string
    pass: unknown
    database: string
    ssl: unknown
  }
}

export function postgresJsExecutor(sql: PostgresJsExecutor): Executor {
  return {
    async query<Row>(text: string, values: readonly unknown[] = []) {
      try {
        // A copy, because the rows of postgres.js carry statement and connection facts along.
        return [...(await sql.unsafe(text, values as never[]))] as Row[]
      } catch (error) {
        throw translate(error)
      }
    },
  }
}

/** A database behind the user's own postgres.js. */
export function fromPostgresJs(sql: PostgresJs): Database {
  const connection = connectionOf(sql)
  const { query } = postgresJsExecutor(sql)
  return {
    query<Row>(text: string, values?: readonly unknown[], withinMs?: number) {
      // It has no deadline for a statement, and no way to give up its connection.
      return withinMs === undefined ? query<Row>(text, values) : withinDeadline(query<Row>(text, values), withinMs)
    },
    connection,
    address: addressOf(connection),
    async close() {},
    async transaction<T>(work: (tx: Executor) => Promise<T>) {
      let outcome: { error: unknown } | undefined
      try {
        return (await sql.begin((tx) =>
          work(postgresJsExecutor(tx)).catch((error: unknown) => {
            outcome = { error }
            throw error
          }),
        )) as T
      } catch (error) {
        throw outcome ? outcome.error : translate(error)
      }
    },
  }
}

function connectionOf(sql: PostgresJs): Connection {
  const { host, port, user, pass, database, ssl } = sql.options
  return {
    host: host[0] ?? 'localhost',
    port: port[0] ?? 5432,
    user,
    password: pass as NonNullable<Connection['password']>,
    database,
    ...(ssl ? { ssl: ssl as NonNullable<Connection['ssl']> } : {}),
  }
}
