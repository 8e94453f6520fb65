import { AsyncLocalStorage } from 'node:async_hooks'
import type { PgPool } from '../postgres/index.js'

/** A statement that was asked, with its values. */
export interface Asked {
  readonly text: string
  readonly values: readonly unknown[]
}

const listening = new AsyncLocalStorage<Asked[] | undefined>()

/** A pool that tells what is asked through it to whoever overhears that. */
export function overheard(pool: PgPool): PgPool {
  const query = (given: string | { text: string; query_timeout: number }, values?: unknown[]) => {
    const text = typeof given === 'string' ? given : given.text
    listening.getStore()?.push({ text, values: values ?? [] })
    return typeof given === 'string' ? pool.query(given, values) : pool.query(given, values)
  }
  return {
    query,
    connect: () => pool.connect(),
    on: pool.on.bind(pool) as PgPool['on'],
    off: pool.off.bind(pool) as PgPool['off'],
    options: pool.options,
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
