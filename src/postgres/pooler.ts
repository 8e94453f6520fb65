import type pg from 'pg'
import type { Connection } from './database.js'
import { SessionLocksUnavailableError } from './errors.js'
import { PgHostsClient } from './hosts.js'

/**
 * Distinguishes a transaction pooler from a session pooler by observing a change of backends. Called only if a pooler exists: the backend
 * pid from the connection start differs from the pid of the backend that executes statements.
 *
 * A transaction pooler frees the backend of our last statement. A second client then begins a transaction. Either this
 * transaction gets that backend, or our next statement runs on a different backend. Poolers assign either the last used
 * backend or the next backend in turn, so the first round usually shows one of these two effects. A busy pooler may
 * need more rounds. Every later heartbeat checks the pid again.
 */
const rounds = 8

export async function refuseTransactionPooler(client: pg.Client, connection: Connection, pid: number): Promise<void> {
  const second = new PgHostsClient({ ...connection, connectionTimeoutMillis: 10_000 })
  second.on('error', () => {})
  try {
    await second.connect()
    for (let round = 0; round < rounds; round++) {
      let foreign = (await backendPid(client)) !== pid
      // The check runs twice, because if two backends alternate, every second statement runs on the same backend.
      foreign ||= (await backendPid(client)) !== pid
      await second.query('begin')
      foreign ||= (await backendPid(second)) === pid
      // `||=` skips the query once `foreign` is true. If the pooler has only one backend, the second client occupies that backend now, and
      // the query would have to wait.
      foreign ||= (await backendPid(client)) !== pid
      await second.query('rollback')
      if (foreign) throw new SessionLocksUnavailableError('transaction-pooler')
    }
  } finally {
    await second.end().catch(() => {})
  }
}

async function backendPid(client: pg.Client): Promise<number> {
  return (await client.query<{ pid: number }>('select pg_catalog.pg_backend_pid() as pid')).rows[0]!.pid
}
