import { AsyncLocalStorage } from 'node:async_hooks'
import type { PgPool, PgPoolClient } from '../postgres/index.js'

/** A statement and its parameter values. */
export interface RecordedQuery {
  readonly text: string
  readonly values: readonly unknown[]
}

const recordings = new AsyncLocalStorage<RecordedQuery[] | undefined>()

/** Wraps a pool so that `recordQueries` can record the pool's queries. */
export function recordingPool(pool: PgPool): PgPool {
  const wrappers = new WeakMap<PgPoolClient, PgPoolClient>()
  return {
    query: recordingQuery(pool),
    connect: async () => {
      const client = await pool.connect()
      const wrapper = wrappers.get(client) ?? recordingClient(client)
      wrappers.set(client, wrapper)
      return wrapper
    },
    on: pool.on.bind(pool) as PgPool['on'],
    off: pool.off.bind(pool) as PgPool['off'],
    options: pool.options,
  }
}

function recordingClient(client: PgPoolClient): PgPoolClient {
  return {
    query: recordingQuery(client),
    // The pool replaces the client's method each time.
    release: (error) => client.release(error),
    on: client.on.bind(client),
    off: client.off.bind(client),
    get processID() {
      return client.processID
    },
  }
}

/** Statements that are not recorded. */
const unrecorded = /^(begin|commit|rollback|select pg_catalog\.set_config)\b/

function recordingQuery(target: Pick<PgPoolClient, 'query'>): PgPoolClient['query'] {
  return (given: string | { text: string; query_timeout: number }, values?: unknown[]) => {
    const text = typeof given === 'string' ? given : given.text
    if (!unrecorded.test(text)) recordings.getStore()?.push({ text, values: values ?? [] })
    return typeof given === 'string' ? target.query(given, values) : target.query(given, values)
  }
}

/** Runs the given work and returns the queries that the work sent. */
export async function recordQueries(work: () => Promise<unknown>): Promise<RecordedQuery[]> {
  const queries: RecordedQuery[] = []
  await recordings.run(queries, work)
  return queries
}

/** Runs the work without recording its queries. */
export function withoutRecording<T>(work: () => T): T {
  return recordings.run(undefined, work)
}
