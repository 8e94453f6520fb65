import type { Database } from './database.js'
import { UnsupportedServerError } from './errors.js'
import type { SchemaState } from './migrate.js'
import { loadStatements } from './statements.js'

/**
 * PGlite is PostgreSQL in WebAssembly, with a single session. A socket server for PGlite lets several clients use this
 * session, and queues each message separately. While C's transaction is open, A sends Parse. Then B sends Parse. After
 * C's commit, the server runs A's Parse, B's Parse and then A's Bind, which binds A's values to B's statement, because
 * both statements are unnamed. A gets B's rows, or an error such as 22P02. Therefore, Holdfast accepts PGlite only
 * through a pool that has one connection.
 */
export function isPglite(server: string): boolean {
  return /pglite/i.test(server)
}

/** Throws if the server would mix the statements of several connections. */
export function checkConnections({ server }: SchemaState, { hasOneConnection }: Database): void {
  if (server === undefined || !isPglite(server) || hasOneConnection) return
  throw new UnsupportedServerError(
    `Expected a pool with one connection, because all connections to this server share one session, got several connections to ${server}`,
    "Pass pool: new pg.Pool(createPgConfig(pglite)), with createPgConfig from '@electric-sql/pglite/node-postgres'. Or use a real PostgreSQL server (`holdfast dev` starts one).",
  )
}

/**
 * Begins the server's generation if it has not begun. With several connections, the first lock begins it. With one connection, a lock in the
 * caller's transaction would wait for its own transaction.
 */
export async function beginGeneration(database: Database, schema: string): Promise<void> {
  const statements = loadStatements<'advance_fence'>(new URL('./instance.sql', import.meta.url), schema)
  await database.query(statements.advance_fence.text)
}
