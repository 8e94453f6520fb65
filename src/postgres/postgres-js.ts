import { describe, UsageError } from '../base/index.js'
import type { Connection, Database, Executor } from './database.js'
import { openPgPool } from './node-postgres.js'
import { translate } from './sqlstate.js'

/** The `sql` of a transaction of postgres.js. */
export interface PostgresJsExecutor {
  unsafe(text: string, values?: never[]): PromiseLike<readonly unknown[]>
  savepoint?<T>(work: (tx: PostgresJsExecutor) => Promise<T>): Promise<unknown>
}

/** What Holdfast takes of the user's `sql`: where it leads. */
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
        // A copy, because the rows of postgres.js carry statement and connection facts along.
        return [...(await sql.unsafe(text, values as never[]))] as Row[]
      } catch (error) {
        throw translate(error)
      }
    },
  }
}

/**
 * A database where the user's postgres.js leads, by connections of our own: see docs/decisions/0003-two-drivers.md. Only
 * what belongs into a transaction of the user goes through theirs.
 */
export function fromPostgresJs(sql: PostgresJs): Database {
  return openPgPool(connectionOf(sql))
}

function connectionOf(sql: PostgresJs): Connection {
  const { host, port, user, pass, database, ssl, target_session_attrs: target } = sql.options
  const hosts = host.map((one, at) => ({ host: one, port: port[at] ?? 5432 }))
  // Unasked it takes whatever host answers, and for read-write also a standby.
  if (hosts.length > 1 && target !== 'primary') {
    throw new UsageError(
      `Expected target_session_attrs of postgres.js to be primary, for it has several hosts, got ${describe(target ?? undefined)}`,
      "Make it by postgres(url, { target_session_attrs: 'primary' }). With read-write it takes a standby, too.",
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
