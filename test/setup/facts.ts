import pg from 'pg'
import { onTestFinished } from 'vitest'

/** Additional time for a check that is running at the deadline. */
const lastCheckMs = 5_000

/** Waits until `fact` returns a truthy value, and returns the value. Throws an error with `what` after `withinMs`. */
export async function until<T>(
  what: string,
  fact: () => Promise<T> | T,
  withinMs = 15_000,
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = performance.now() + withinMs
  // The checks become less frequent, because a check may open a connection.
  for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 1.3, 100)) {
    const leftMs = Math.max(0, deadline - performance.now())
    const found = await within(leftMs + lastCheckMs, `The check "${what}"`, Promise.resolve(fact()))
    if (found) return found as Exclude<T, undefined | null | false>
    if (performance.now() > deadline) throw new Error(`This did not become true within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

/**
 * Checks repeatedly that `fact` stays true for `forMs`. For events that must not happen: the time must be long enough that the event would have
 * happened.
 */
export async function stays(what: string, fact: () => unknown, forMs: number): Promise<void> {
  const over = performance.now() + forMs
  do {
    if (!(await fact())) throw new Error(`This is no longer true: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 30))
  } while (performance.now() < over)
}

/** Creates a promise and the function that resolves it. */
export function gate(): { opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

/** Returns the error that `work` throws, which must be an instance of `type`. */
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

/** Opens a SQL session without Holdfast. Closed when the test has finished. */
export async function sqlSession(url: string, settings: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, ...settings })
  // Tests end sessions on purpose. The next statement throws.
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end().catch(() => {}))
  return client
}

/** Creates a pool as users do. Ended when the test has finished. */
export function sqlPool(settings: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(settings)
  // end() does not wait for the pool's connections, and the test may drop their database immediately afterwards.
  pool.on('error', () => {})
  onTestFinished(() => pool.end())
  return pool
}

/** Pools by URL. A run would otherwise open ten thousand connections for single statements. */
const pools = new Map<string, pg.Pool>()

function poolFor(connectionString: string): pg.Pool {
  let pool = pools.get(connectionString)
  if (!pool) {
    // Statements of a test follow one another closely. A test that is not about this connection should soon no longer see it.
    pool = new pg.Pool({ connectionString, max: 100, idleTimeoutMillis: 300, allowExitOnIdle: true })
    // The pool stops listening when it ends an idle connection, and the server may end the connection at the same time.
    pool.on('error', () => {}).on('connect', (client) => client.on('error', () => {}))
    pools.set(connectionString, pool)
  }
  return pool
}

/** Runs one statement, or several without values. Settings and temporary tables end with the call. */
export async function sql<Row extends object = Record<string, unknown>>(
  url: string,
  text: string,
  values?: unknown[],
): Promise<Row[]> {
  const pool = poolFor(url)
  const mayBeEnded = pool.idleCount > 0
  try {
    return await query(pool, text, values)
  } catch (error) {
    // A test ends sessions on purpose, and an idle connection notices it late.
    if (!mayBeEnded || !isOfEndedSession(error as pg.DatabaseError)) throw error
    return query(pool, text, values)
  }
}

async function query<Row extends object>(pool: pg.Pool, text: string, values?: unknown[]): Promise<Row[]> {
  const client = await pool.connect()
  const leavesState = /^\s*(set|create temp|load|listen|begin)\b|set_config|pg_advisory_lock/im.test(text)
  let isReusable = false
  try {
    const { rows } = await client.query<Row>(text, values)
    isReusable = !leavesState
    return rows
  } finally {
    client.release(!isReusable)
  }
}

/** SQLSTATE ADMIN_SHUTDOWN, or none because the socket was closed. */
function isOfEndedSession({ code, message }: pg.DatabaseError): boolean {
  return code === '57P01' || code === 'ECONNRESET' || code === 'EPIPE' || message.startsWith('Connection terminated')
}

/** Settles like the promise, or throws after `ms`, so that a hanging test reports where it hangs. */
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

/** Observes the locks and sessions of a database. */
export class Witness {
  readonly #url: string
  #client: Promise<pg.Client> | undefined

  constructor(url: string) {
    this.#url = url
  }

  /** Runs a query. Connects again if the connection was lost. */
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

  /** Returns the advisory locks on names, without those that represent sessions. */
  locks(): Promise<AdvisoryLock[]> {
    return this.query(`
      select ((classid::bigint << 32) | objid::bigint)::text as key, mode, pid, granted
      from pg_locks
      where locktype = 'advisory'
        and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())`)
  }

  /** Returns the process ids of the instances' own sessions: anchors and wait connections. */
  async sessions(instanceId = '%'): Promise<number[]> {
    const rows = await this.query<{ pid: number }>(
      `select pid from pg_stat_activity
       where application_name like $1 and datname = current_database()
       order by backend_start`,
      [`holdfast ${instanceId}`],
    )
    return rows.map(({ pid }) => pid)
  }

  /** Returns the process ids of the sessions in pools that instances have opened. */
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

  /** Waits until `count` sessions wait in the server's queue for a name. */
  async seesWaiter(count = 1): Promise<void> {
    await until(
      `${count} sessions wait in the server's lock queue`,
      async () => (await this.locks()).filter(({ granted }) => !granted).length >= count,
    )
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined)
    this.#client = undefined
    await client?.end()
  }
}

/** Waits until these names are registered, which happens shortly after they were first used. */
export async function untilRegistered(url: string, ...names: string[]): Promise<void> {
  await until(`the names ${names.join(', ')} are registered`, async () => {
    const rows = await sql(url, 'select from holdfast.name where label = any($1)', [names])
    return rows.length === names.length
  })
}
