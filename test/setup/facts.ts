import pg from 'pg'
import { onTestFinished } from 'vitest'

/** Waits until `fact` answers with something that is true; fails with `what` when it does not within `withinMs`. */
export async function until<T>(
  what: string,
  fact: () => Promise<T> | T,
  withinMs = 15_000,
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const found = await fact()
    if (found) return found as Exclude<T, undefined | null | false>
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** What `work` threw, which must be of the class `type`. */
export async function caught<T extends Error>(
  type: abstract new (...given: never[]) => T,
  work: Promise<unknown> | (() => unknown),
): Promise<T> {
  try {
    await (typeof work === 'function' ? work() : work)
  } catch (error) {
    if (error instanceof type) return error
    throw error
  }
  throw new Error(`Expected a ${type.name} to be thrown, but nothing was`)
}

/** A session of plain SQL, closed when the test has finished. */
export async function sqlSession(url: string, settings: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, ...settings })
  // Sessions are terminated on purpose here; the statement that fails says it.
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end().catch(() => {}))
  return client
}

/** Runs one statement, or several without values, on a connection of its own. */
export async function sql<Row extends object = Record<string, unknown>>(
  url: string,
  text: string,
  values?: unknown[],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Row>(text, values)).rows
  } finally {
    await client.end()
  }
}
