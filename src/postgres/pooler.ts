import type pg from 'pg'
import type { Connection } from './database.js'
import { SessionLocksUnavailableError } from './errors.js'
import { HostsClient } from './hosts.js'

/**
 * Distinguishes a transaction pooler from a session pooler by observing a change of backends. Called if the backend pid from the
 * connection start is not the one that executes statements, so there is a pooler.
 *
 * A transaction pooler frees the backend of our last statement. A second client begins a transaction: it gets this backend, or our next
 * statement runs on another one. Poolers assign the backend that was used last or the next one in turn, so the first round shows one of
 * the two. More rounds cover a busy pooler. Every later heartbeat checks the pid again.
 */
const rounds = 8

export async function refuseTransactionPooler(client: pg.Client, connection: Connection, pid: number): Promise<void> {
  const second = new HostsClient({ ...connection, connectionTimeoutMillis: 10_000 })
  second.on('error', () => {})
  try {
    await second.connect()
    for (let round = 0; round < rounds; round++) {
      let foreign = (await backendPid(client)) !== pid
      // A second time, because with two alternating backends every other statement runs on the same one.
      foreign ||= (await backendPid(client)) !== pid
      await second.query('begin')
      foreign ||= (await backendPid(second)) === pid
      // `||=` skips the query once it is known: if there is only one backend, the second client occupies it now.
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
