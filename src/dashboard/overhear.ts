import { AsyncLocalStorage } from 'node:async_hooks'
import type { PgPool, PgPoolClient } from '../postgres/index.js'

/** A statement that was asked, with its values. */
export interface Asked {
  readonly text: string
  readonly values: readonly unknown[]
}

const listening = new AsyncLocalStorage<Asked[] | undefined>()

/** A pool that tells what is asked through it to whoever overhears that. */
export function overheard(pool: PgPool): PgPool {
  return {
    query: tell(pool),
    connect: async () => {
      const client = await pool.connect()
      return {
        query: tell(client),
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

/** What begins and ends a transaction, which is no question. */
const bracket = /^(begin|commit|rollback)\b/

/** The `query` of a pool or of a client, which tells what it is given. */
function tell(asked: Pick<PgPoolClient, 'query'>): PgPoolClient['query'] {
  return (given: string | { text: string; query_timeout: number }, values?: unknown[]) => {
    const text = typeof given === 'string' ? given : given.text
    if (!bracket.test(text)) listening.getStore()?.push({ text, values: values ?? [] })
    return typeof given === 'string' ? asked.query(given, values) : asked.query(given, values)
  }
}

/** Does the work, and answers with what it asked. */
export async function overhear(work: () => Promise<unknown>): Promise<Asked[]> {
  const asked: Asked[] = []
  await listening.run(asked, work)
  return asked
}

/** Does what nobody is to overhear. */
export function unheard<T>(work: () => T): T {
  return listening.run(undefined, work)
}
