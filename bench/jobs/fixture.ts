// Where a contestant is measured: a server of its own, fresh, with the same settings for all, and a Redis if it wants one.
import pg from 'pg'
import { cpuMsOf } from '../cpu.ts'
import { benchRedis } from '../peers/redis.ts'
import { benchDatabase, query, type ServerOptions } from '../server.ts'
import { contestants, openQueue, type Place, type Queue } from './contestants.ts'
import { type Crew, startWorkers, type Workers } from './workers.ts'

const counted = { shared_preload_libraries: 'pg_stat_statements', 'pg_stat_statements.track': 'top' }

const spent = `
select
  (pg_current_wal_insert_lsn() - '0/0')::float8 as wal,
  pg_database_size(current_database())::float8 as size,
  (select coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 from pg_stat_user_tables) as dead,
  (select coalesce(sum(calls), 0)::float8 from pg_stat_statements where query not like '%pg_stat_statements%') as statements`

/** What a server has spent; what is not known of it is not there. */
export interface Spent {
  cpuMs: number | undefined
  statements?: number
  wal?: number
  size?: number
  dead?: number
}

export interface Fixture {
  name: string
  url: string
  at: Place
  queue: Queue
  workers(options?: Crew): Promise<Workers>
  forgetSnapshot(): Promise<void>
  spent(): Promise<Spent>
}

/** Runs `measure` with an open queue, and removes the server afterwards. */
export async function withFixture<Result>(
  name: string,
  measure: (stage: Fixture) => Promise<Result>,
  { settings, binDir }: ServerOptions = {},
): Promise<Result> {
  const onRedis = contestants[name]!.onRedis === true
  const database = await benchDatabase({ settings: { ...counted, ...settings }, binDir })
  const redis = onRedis ? await benchRedis() : undefined
  const at = { url: database.url, redisUrl: redis?.url }
  await query(database.url, 'create extension if not exists pg_stat_statements').catch(() => {})
  const queue = await openQueue(name, at)
  const crew: Workers[] = []
  const stage: Fixture = {
    name,
    url: database.url,
    at,
    queue,
    async workers(options) {
      const workers = await startWorkers(name, at, options)
      crew.push(workers)
      return workers
    },
    /** Keeps a snapshot open, as a forgotten transaction does. */
    async forgetSnapshot() {
      const client = new pg.Client({ connectionString: database.url })
      client.on('error', () => {})
      await client.connect()
      await client.query('begin isolation level repeatable read; select count(*) from pg_class')
    },
    /** What the server has spent until now. Of Redis only its commands and the time of its processor are known. */
    async spent() {
      const cpuMs = cpuMsOf(redis ? redis.pid : database.pid)
      if (redis) return { cpuMs, statements: await redis.commands() }
      const [row] = await query(database.url, spent).catch(() => [{}])
      return { ...row, cpuMs }
    },
  }
  try {
    return await measure(stage)
  } finally {
    for (const workers of crew) await workers.stop()
    await Promise.race([queue.close(), new Promise((resolve) => setTimeout(resolve, 2_000))])
    await redis?.close()
    await database.close()
  }
}

export function less(after: number | undefined, before: number | undefined) {
  return after === undefined || before === undefined ? undefined : after - before
}

/** What was spent on each job, between two looks. */
export function each(before: Spent, after: Spent, jobs: number, clientMs: number) {
  const of = (what: keyof Spent, digits: number) => {
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
