// Measures what one call costs: its round trips and its time in the server. pg_stat_statements counts neither the commit nor the network.
import pg from 'pg'
import { round3 } from './measure.ts'
import { benchDatabase } from './server.ts'

export interface Cost {
  /** Messages that the process sent for each call. A message may contain several statements. */
  roundTrips: number
  /** Time in milliseconds that the server plans and executes for each call. */
  serverMs: number
}

/** Creates a database whose server counts statements. Undefined if the server of HOLDFAST_BENCH_URL does not count them. */
export async function costDatabase() {
  const settings = { shared_preload_libraries: 'pg_stat_statements', 'pg_stat_statements.track_planning': 'on' }
  const database = await benchDatabase({ settings })
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    await client.query('create extension pg_stat_statements')
    await client.query('select from pg_stat_statements')
    return database
  } catch {
    await database.close()
    return undefined
  } finally {
    await client.end()
  }
}

/** Runs `once` a number of times, one call at a time, after a few unmeasured calls. */
export async function costPerCall(url: string, once: () => Promise<unknown>, calls = 1_000): Promise<Cost> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { query } = pg.Client.prototype
  let sent = 0
  pg.Client.prototype.query = function (this: pg.Client, ...given: unknown[]) {
    sent++
    return Reflect.apply(query, this, given)
  }
  try {
    for (let call = 0; call < 50; call++) await once()
    await client.query('select pg_stat_statements_reset()')
    sent = 0
    for (let call = 0; call < calls; call++) await once()
    const roundTrips = Math.round((sent / calls) * 10) / 10
    const { rows } = await client.query<{ ms: number }>(
      `select sum(total_plan_time + total_exec_time)::float8 as ms
      from pg_stat_statements
      join pg_database on pg_database.oid = dbid
      where datname = current_database()
        and query not like '%pg_stat_statements%'`,
    )
    return { roundTrips, serverMs: round3(rows[0]!.ms / calls) }
  } finally {
    pg.Client.prototype.query = query
    await client.end()
  }
}
