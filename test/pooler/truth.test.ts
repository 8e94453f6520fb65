// Session locks do not protect behind a pooler in transaction mode. So opening must always refuse it, independently of the pooler's size, order
// and load. Opening must leave no locks and settings on the backends, because other clients use them.
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Holdfast, SessionLocksUnavailableError } from '../../src/index.js'
import { refuseTransactionPooler } from '../../src/postgres/pooler.js'
import { countOf } from '../property/seed.js'
import { caught, sql } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { startPooler, withoutPgBouncer } from './pgbouncer.js'

// HOLDFAST_SCHEDULES changes the number of openings.
const openings = countOf(12, 50)

const cases = [1, 5, 20].flatMap((backends) =>
  [false, true].flatMap((roundRobin) =>
    [false, true].map((loaded) => ({
      backends,
      roundRobin,
      loaded,
      order: roundRobin ? 'round robin' : 'last used first',
      load: loaded ? 'busy' : 'idle',
    })),
  ),
)

describe.skipIf(withoutPgBouncer)('opening through PgBouncer in transaction mode', () => {
  test.each(cases)(
    'every opening is refused with $backends backends, $order, $load',
    { timeout: 60_000 },
    async ({ backends, roundRobin, loaded }) => {
      const direct = await databaseUrl()
      const pooler = await startPooler({ mode: 'transaction', backends, roundRobin })
      const url = pooler.through(direct)
      if (loaded) keepBusy(url, backends * 2)
      for (let opening = 0; opening < openings; opening++) {
        const error = await caught(SessionLocksUnavailableError, Holdfast.open({ url, migrate: false }))
        expect(error.reason).toBe('transaction-pooler')
        expect(error.hint).toContain('directUrl')
      }
      expect(await advisoryLocks(direct)).toBe(0)
      for (const settings of await settingsOfBackends(url, backends)) expect(settings).toEqual(await settingsOf(direct))
    },
  )

  test('an opening is refused if it alternates with another client so that each always gets the same backend', async () => {
    const pooler = await startPooler({ mode: 'transaction', backends: 2, roundRobin: true })
    const connection = { connectionString: pooler.through(await databaseUrl()) }
    const [client, other] = [new pg.Client(connection), new pg.Client(connection)]
    for (const one of [client, other]) {
      await one.connect()
      onTestFinished(() => one.end())
    }
    // The pooler has two backends. The next backend in turn is that of the client again.
    await Promise.all([client, other].map((one) => one.query('select pg_sleep(0.1)')))
    const pid = await backendPid(client)
    expect(await backendPid(other)).not.toBe(pid)
    const refusal = await caught(SessionLocksUnavailableError, refuseTransactionPooler(client, connection, pid))
    expect(refusal.reason).toBe('transaction-pooler')
  })
})

async function backendPid(client: pg.Client): Promise<number> {
  return (await client.query('select pg_backend_pid() as pid')).rows[0].pid
}

/** Starts clients that use the pooler with statements and transactions of random lengths until the test has finished. */
function keepBusy(url: string, clients: number): void {
  const pool = new pg.Pool({ connectionString: url, max: clients })
  pool.on('error', () => {})
  let isOver = false
  const workers = Array.from({ length: clients }, async () => {
    while (!isOver) {
      const client = await pool.connect()
      await client.query('select pg_sleep(random() * 0.002)')
      await client.query('begin')
      await client.query('select pg_sleep(random() * 0.005)')
      await client.query('commit')
      client.release()
    }
  })
  onTestFinished(async () => {
    isOver = true
    await Promise.all(workers)
    await pool.end()
  })
}

async function advisoryLocks(url: string): Promise<number> {
  const [row] = await sql<{ locks: number }>(
    url,
    `select count(*)::integer as locks
     from pg_locks
     where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
  )
  return row!.locks
}

const settingsQuery = `
select jsonb_object_agg(name, setting) as settings
from pg_settings
where (name like '%timeout%' or name like 'tcp_%' or name in ('client_connection_check_interval', 'synchronous_commit'))`

type Settings = Record<string, string>

async function settingsOf(url: string): Promise<Settings> {
  return (await sql<{ settings: Settings }>(url, settingsQuery))[0]!.settings
}

/** Returns the settings of each backend of the pooler. One open transaction per backend reaches all of them. */
async function settingsOfBackends(url: string, backends: number): Promise<Settings[]> {
  const clients = Array.from({ length: backends }, () => new pg.Client({ connectionString: url }))
  await Promise.all(clients.map((client) => client.connect()))
  try {
    await Promise.all(clients.map((client) => client.query('begin')))
    const results = await Promise.all(clients.map((client) => client.query(settingsQuery)))
    return results.map(({ rows }) => rows[0].settings)
  } finally {
    await Promise.all(clients.map((client) => client.end()))
  }
}
