// Measures the load on the server during a run.
import pg from 'pg'

/** Statements per second, and the largest number of connections. */
export interface Load {
  statementsPerSecond: number
  connections: number
}

const sampleEveryMs = 1_000

/** Settings of a server whose load is measured. */
export const loadSettings = { shared_preload_libraries: 'pg_stat_statements' }

/** Counts from now on. The returned function ends the measurement. */
export async function measureLoad(url: string): Promise<() => Promise<Load>> {
  const client = new pg.Client({ connectionString: url, application_name: 'judge' })
  client.on('error', () => {}) // The next statement reports the error.
  await client.connect()
  await client.query('create extension if not exists pg_stat_statements')
  const statements = async () => {
    const { rows } = await client.query('select sum(calls)::float8 as calls from pg_stat_statements')
    return rows[0].calls as number
  }
  const [before, from] = [await statements(), performance.now()]
  let connections = 0
  const timer = setInterval(async () => {
    const { rows } = await client.query(
      "select count(*)::integer as count from pg_stat_activity where backend_type = 'client backend'",
    )
    connections = Math.max(connections, rows[0].count)
  }, sampleEveryMs)
  return async () => {
    clearInterval(timer)
    const statementsPerSecond = ((await statements()) - before) / ((performance.now() - from) / 1_000)
    await client.end()
    return { statementsPerSecond, connections }
  }
}
