import pg from 'pg'
import { onTestFinished } from 'vitest'

/** A look that is under way when the time is over may still come to its end; one that hangs is given up. */
const lastLookMs = 5_000

/** Waits until `fact` answers with something that is true; fails with `what` when it does not within `withinMs`. */
export async function until<T>(
  what: string,
  fact: () => Promise<T> | T,
  withinMs = 15_000,
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = performance.now() + withinMs
  // To look often is for what comes soon: a look may cost a connection, and there are many tests.
  for (let lookMs = 10; ; lookMs = Math.min(lookMs * 1.3, 100)) {
    const leftMs = Math.max(0, deadline - performance.now())
    const found = await within(leftMs + lastLookMs, `To look whether ${what}`, Promise.resolve(fact()))
    if (found) return found as Exclude<T, undefined | null | false>
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, lookMs))
  }
}

/**
 * That something stays so for a while, looked at all the time. For what must not happen, and so is no fact to wait for:
 * long enough that it would have happened if it could.
 */
export async function stays(what: string, fact: () => unknown, forMs: number): Promise<void> {
  const over = performance.now() + forMs
  do {
    if (!(await fact())) throw new Error(`Not any more: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 30))
  } while (performance.now() < over)
}

/** A promise, and how to resolve it. */
export function gate(): { opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
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

/** A pool as users have one, ended when the test has finished. */
export function sqlPool(settings: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(settings)
  // Its end does not wait for its connections, and their database may be dropped right after it.
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  return pool
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

/** Settles like the promise, but fails when that takes too long: a test that hangs says where. */
export async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

export interface AdvisoryLock {
  key: string
  mode: 'ExclusiveLock' | 'ShareLock'
  pid: number
  granted: boolean
}

/** Looks at a database from outside: who holds, who waits, which sessions there are. */
export class Witness {
  readonly #url: string
  #client: Promise<pg.Client> | undefined

  constructor(url: string) {
    this.#url = url
  }

  /** Connects anew after the server was away. */
  async query<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
    this.#client ??= this.#connect()
    return (await (await this.#client).query<Row>(text, values)).rows
  }

  #connect(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.#url, application_name: 'witness' })
    const connecting = client.connect().then(() => client)
    const forget = () => {
      if (this.#client === connecting) this.#client = undefined
    }
    client.on('error', forget)
    connecting.catch(forget)
    return connecting
  }

  /** The locks on names, without those that vouch for sessions. */
  locks(): Promise<AdvisoryLock[]> {
    return this.query(`
      select ((classid::bigint << 32) | objid::bigint)::text as key, mode, pid, granted
      from pg_locks
      where locktype = 'advisory'
        and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())`)
  }

  /** The backends of the instances' own sessions: anchors and parked ones. */
  async sessions(instanceId = '%'): Promise<number[]> {
    const rows = await this.query<{ pid: number }>(
      `select pid from pg_stat_activity
       where application_name like $1 and datname = current_database()
       order by backend_start`,
      [`holdfast ${instanceId}`],
    )
    return rows.map(({ pid }) => pid)
  }

  /** The backends of the pools that instances open themselves. */
  async pooledSessions(): Promise<number[]> {
    const rows = await this.query<{ pid: number }>(
      "select pid from pg_stat_activity where application_name = 'holdfast' and datname = current_database()",
    )
    return rows.map(({ pid }) => pid)
  }

  async anchorOf(instanceId: string): Promise<number> {
    const rows = await this.query<{ backend_pid: number }>('select backend_pid from holdfast.instance where id = $1', [
      instanceId,
    ])
    return rows[0]!.backend_pid
  }

  async terminate(pid: number): Promise<void> {
    await this.query('select pg_terminate_backend($1)', [pid])
  }

  /** Resolves when somebody stands in the server's queue for a name. */
  async seesWaiter(count = 1): Promise<void> {
    await until(
      `${count} wait in the queue of the server`,
      async () => (await this.locks()).filter(({ granted }) => !granted).length >= count,
    )
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined)
    this.#client = undefined
    await client?.end()
  }
}
