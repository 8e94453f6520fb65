import type pg from 'pg'
import type { Connection } from './database.js'
import { SessionLocksUnavailableError } from './errors.js'
import { HostsClient } from './hosts.js'

/**
 * Tells a transaction pooler from a session pooler, by catching it in the act.
 *
 * Called where the pid announced at connecting is not the one that answers, so something stands between. Whatever
 * backend served our last statement is free for others while we are idle: a second client in a transaction gets it,
 * or drives us onto another. Poolers hand out the backend that was used last, or the next in turn, so one of the two
 * shows in the first round; several rounds cover a pooler that is busy with others meanwhile. And every later
 * heartbeat looks at the pid again.
 */
const rounds = 8

export async function refuseTransactionPooler(client: pg.Client, connection: Connection, pid: number): Promise<void> {
  const second = new HostsClient({ ...connection, connectionTimeoutMillis: 10_000 })
  second.on('error', () => {})
  try {
    await second.connect()
    for (let round = 0; round < rounds; round++) {
      let foreign = (await backendPid(client)) !== pid
      // Twice in a row: with two backends in turns, every other statement meets the same one.
      foreign ||= (await backendPid(client)) !== pid
      await second.query('begin')
      foreign ||= (await backendPid(second)) === pid
      // Not asked once it is known: where there is one backend only, the second client sits on it now.
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
