// Starts a new PostgreSQL server for each measurement of a contestant, with the same settings for all contestants, and a Redis if the
// contestant needs one.
import pg from 'pg'
import { cpuMsOf } from '../cpu.ts'
import { benchRedis } from '../peers/redis.ts'
import { benchDatabase, query, type ServerOptions } from '../server.ts'
import { type Addresses, contestants, openQueue, type Queue } from './contestants.ts'
import { startWorkers, type WorkerOptions, type Workers } from './workers.ts'

const countStatements = { shared_preload_libraries: 'pg_stat_statements', 'pg_stat_statements.track': 'top' }

const usage = `
select
  (pg_current_wal_insert_lsn() - '0/0')::float8 as wal,
  pg_database_size(current_database())::float8 as size,
  (select coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 from pg_stat_user_tables) as dead,
  (select coalesce(sum(calls), 0)::float8 from pg_stat_statements where query not like '%pg_stat_statements%') as statements`

/** Resources that a server has used since its start. Unknown values are missing. */
export interface Usage {
  cpuMs: number | undefined
  statements?: number
  wal?: number
  size?: number
  dead?: number
}

export interface Fixture {
  name: string
  url: string
  addresses: Addresses
  queue: Queue
  workers(options?: WorkerOptions): Promise<Workers>
  forgetSnapshot(): Promise<void>
  usage(): Promise<Usage>
}

/** Runs `measure` with an open queue, and removes the server afterwards. */
export async function withFixture<Result>(
  name: string,
  measure: (fixture: Fixture) => Promise<Result>,
  { settings, binDir }: ServerOptions = {},
): Promise<Result> {
  const onRedis = contestants[name]!.onRedis === true
  const database = await benchDatabase({ settings: { ...countStatements, ...settings }, binDir })
  const redis = onRedis ? await benchRedis() : undefined
  const addresses = { url: database.url, redisUrl: redis?.url }
  await query(database.url, 'create extension if not exists pg_stat_statements').catch(() => {})
  const queue = await openQueue(name, addresses)
  const started: Workers[] = []
  const fixture: Fixture = {
    name,
    url: database.url,
    addresses,
    queue,
    async workers(options) {
      const workers = await startWorkers(name, addresses, options)
      started.push(workers)
      return workers
    },
    /** Keeps a snapshot open, as a forgotten transaction does. */
    async forgetSnapshot() {
      const client = new pg.Client({ connectionString: database.url })
      client.on('error', () => {})
      await client.connect()
      await client.query('begin isolation level repeatable read; select count(*) from pg_class')
    },
    /** Returns the resources that the server has used since its start. For Redis, only commands and CPU time are known. */
    async usage() {
      const cpuMs = cpuMsOf(redis ? redis.pid : database.pid)
      if (redis) return { cpuMs, statements: await redis.commands() }
      const [row] = await query(database.url, usage).catch(() => [{}])
      return { ...row, cpuMs }
    },
  }
  try {
    return await measure(fixture)
  } finally {
    for (const workers of started) await workers.stop()
    await Promise.race([queue.close(), new Promise((resolve) => setTimeout(resolve, 2_000))])
    await redis?.close()
    await database.close()
  }
}

export function less(after: number | undefined, before: number | undefined) {
  return after === undefined || before === undefined ? undefined : after - before
}

/** Returns the resources per job that the server used between two measurements. */
export function each(before: Usage, after: Usage, jobs: number, clientMs: number) {
  const of = (what: keyof Usage, digits: number) => {
    const value = less(after[what], before[what])
    return value !== undefined && Number.isFinite(value / jobs) ? Number((value / jobs).toPrecision(digits)) : undefined
  }
  return {
    serverUs: of('cpuMs', 3) && Math.round((1_000 * less(after.cpuMs, before.cpuMs)!) / jobs),
    clientUs: Math.round((1_000 * clientMs) / jobs),
    walBytes: of('wal', 4),
    sizeBytes: of('size', 3),
    deadRows: of('dead', 2),
    statements: of('statements', 2),
  }
}
