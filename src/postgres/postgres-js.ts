import { describe, UsageError } from '../base/index.js'
import type { Connection, Database, Executor } from './database.js'
import { openPgPool } from './node-postgres.js'
import { translate } from './sqlstate.js'

/** The `sql` object of a postgres.js transaction. */
export interface PostgresJsExecutor {
  unsafe(text: string, values?: never[]): PromiseLike<readonly unknown[]>
  savepoint?<T>(work: (tx: PostgresJsExecutor) => Promise<T>): Promise<unknown>
}

/** The part of a postgres.js object that Holdfast uses: the connection settings. */
export interface PostgresJs {
  readonly options: {
    host: string[]
    port: number[]
    user: string
    pass: unknown
    database: string
    ssl: unknown
    target_session_attrs?: string | null | undefined
  }
}

export function postgresJsExecutor(sql: PostgresJsExecutor): Executor {
  return {
    async query<Row>(text: string, values: readonly unknown[] = []) {
      try {
        // Returns a plain array, because a postgres.js result has additional properties.
        return [...(await sql.unsafe(text, values as never[]))] as Row[]
      } catch (error) {
        throw translate(error)
      }
    },
  }
}

/**
 * Opens Holdfast's own connections to the database that the user's postgres.js uses (see docs/decisions/0003-two-drivers.md). Only
 * statements inside the user's transactions use postgres.js.
 */
export function fromPostgresJs(sql: PostgresJs, maxConnections?: number): Database {
  return openPgPool(connectionOf(sql), maxConnections)
}

function connectionOf(sql: PostgresJs): Connection {
  const { host, port, user, pass, database, ssl, target_session_attrs: target } = sql.options
  const hosts = host.map((one, at) => ({ host: one, port: port[at] ?? 5432 }))
  // By default, postgres.js uses the first host that responds. With read-write, postgres.js may also use a standby.
  if (hosts.length > 1 && target !== 'primary') {
    throw new UsageError(
      `Expected the postgres.js option target_session_attrs to be primary for several hosts, got ${describe(target ?? undefined)}`,
      "Use postgres(url, { target_session_attrs: 'primary' }). With read-write, postgres.js also connects to a standby.",
    )
  }
  return {
    ...(hosts.length > 1 ? { hosts } : hosts[0]),
    user,
    password: pass as NonNullable<Connection['password']>,
    database,
    ...(ssl ? { ssl: ssl as NonNullable<Connection['ssl']> } : {}),
  }
}
