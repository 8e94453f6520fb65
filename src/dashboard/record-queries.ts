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
  return {
    query: recordingQuery(pool),
    connect: async () => {
      const client = await pool.connect()
      return {
        query: recordingQuery(client),
        release: client.release.bind(client),
        on: client.on.bind(client),
        off: client.off.bind(client),
      }
    },
    on: pool.on.bind(pool) as PgPool['on'],
    off: pool.off.bind(pool) as PgPool['off'],
    options: pool.options,
  }
}

/** Statements that are not recorded. */
const transactionControl = /^(begin|commit|rollback)\b/

function recordingQuery(target: Pick<PgPoolClient, 'query'>): PgPoolClient['query'] {
  return (given: string | { text: string; query_timeout: number }, values?: unknown[]) => {
    const text = typeof given === 'string' ? given : given.text
    if (!transactionControl.test(text)) recordings.getStore()?.push({ text, values: values ?? [] })
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
