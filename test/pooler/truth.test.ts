// Behind a pooler in transaction mode session locks protect nothing, so opening refuses it, every time, whatever the
// pooler's size, order and load; and leaves nothing of its own on the backends, which belong to others.
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Holdfast, SessionLocksUnavailableError } from '../../src/index.js'
import { refuseTransactionPooler } from '../../src/postgres/pooler.js'
import { countOf } from '../property/seed.js'
import { caught, sql } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { startPooler, withoutPgBouncer } from './pgbouncer.js'

// More of them, or fewer: HOLDFAST_SCHEDULES.
const openings = countOf(12, 50)

const cases = [1, 5, 20].flatMap((backends) =>
  [false, true].flatMap((roundRobin) =>
    [false, true].map((loaded) => ({
      backends,
      roundRobin,
      loaded,
      order: roundRobin ? 'in turns' : 'last used first',
      load: loaded ? 'busy' : 'idle',
    })),
  ),
)

describe.skipIf(withoutPgBouncer)('behind PgBouncer in transaction mode', () => {
  test.each(cases)(
    'every opening is refused: $backends backends, $order, $load',
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

  test('and so is one that takes turns with somebody so that each always meets the same backend', async () => {
    const pooler = await startPooler({ mode: 'transaction', backends: 2, roundRobin: true })
    const connection = { connectionString: pooler.through(await databaseUrl()) }
    const [client, other] = [new pg.Client(connection), new pg.Client(connection)]
    for (const one of [client, other]) {
      await one.connect()
      onTestFinished(() => one.end())
    }
    // Two backends, and the next in turn is that of the client again.
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

/** Others who use the pooler meanwhile, with statements and transactions of all lengths, until the test has finished. */
function keepBusy(url: string, clients: number): void {
  const pool = new pg.Pool({ connectionString: url, max: clients })
  pool.on('error', () => {})
  let over = false
  const workers = Array.from({ length: clients }, async () => {
    while (!over) {
      const client = await pool.connect()
      await client.query('select pg_sleep(random() * 0.002)')
      await client.query('begin')
      await client.query('select pg_sleep(random() * 0.005)')
      await client.query('commit')
      client.release()
    }
  })
  onTestFinished(async () => {
    over = true
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

const telling = `
select jsonb_object_agg(name, setting) as settings
from pg_settings
where (name like '%timeout%' or name like 'tcp_%' or name in ('client_connection_check_interval', 'synchronous_commit'))`

type Settings = Record<string, string>

async function settingsOf(url: string): Promise<Settings> {
  return (await sql<{ settings: Settings }>(url, telling))[0]!.settings
}

/** What is set on each of the pooler's backends: as many transactions as there are backends meet them all. */
async function settingsOfBackends(url: string, backends: number): Promise<Settings[]> {
  const clients = Array.from({ length: backends }, () => new pg.Client({ connectionString: url }))
  await Promise.all(clients.map((client) => client.connect()))
  try {
    await Promise.all(clients.map((client) => client.query('begin')))
    const answers = await Promise.all(clients.map((client) => client.query(telling)))
    return answers.map(({ rows }) => rows[0].settings)
  } finally {
    await Promise.all(clients.map((client) => client.end()))
  }
}
