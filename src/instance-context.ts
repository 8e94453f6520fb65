// What an instance stands on: made from its options, proven, and brought up to date before any room is.
import { readFileSync } from 'node:fs'
import {
  checkName,
  type Duration,
  duration,
  Events,
  flag,
  objectWith,
  oneOf,
  readOptions,
  type TracerSlot,
  text,
  UsageError,
  wholeNumber,
} from './base/index.js'
import {
  Anchor,
  type Connection,
  checkSchema,
  checkSchemaName,
  checkUrl,
  type Database,
  explainReadOnly,
  fromPgPool,
  fromPostgresJs,
  migrate,
  NameRegistry,
  openPgPool,
  type PgPool,
  type PostgresJs,
  type Presence,
  RowPresence,
  schemaState,
  WaitTracker,
  WriteMonitor,
} from './postgres/index.js'

export interface JobsSettings {
  /**
   * How long jobs are remembered when they have ended. They are forgotten by the day, so it may be a day more. Where
   * instances disagree, the shortest counts. From `1d`; default `7d`.
   */
  keep?: Duration | undefined
  /**
   * How workers claim jobs: `rows` (the default) by writing on their rows, `advisory` by locking them on the session of this
   * instance. All workers of a queue must claim in one way.
   */
  claims?: 'rows' | 'advisory' | undefined
}

export interface HoldfastOptions {
  /**
   * Where PostgreSQL is: `postgres://user:password@host:5432/database`. Of several hosts, `…@one:5432,two:5432/database`, it is the
   * one that is the primary. Give this, or `pool`, or `sql`.
   */
  url?: string | undefined
  /** Your pool of node-postgres. It stays yours: Holdfast never closes it. With several hosts, make it with `Client: HostsClient`. */
  pool?: PgPool | undefined
  /**
   * Your postgres.js: Holdfast goes where it leads, on a few connections of its own. With several hosts it needs
   * `target_session_attrs: 'primary'`.
   */
  sql?: PostgresJs | undefined
  /** Where the anchor connects, past a pooler in transaction mode. The same database as the rest. */
  directUrl?: string | undefined
  /** Keeps your names apart from those of other applications in the same database. Default `default`. */
  namespace?: string | undefined
  /** The schema that Holdfast keeps its tables in. Default `holdfast`. */
  schema?: string | undefined
  /** How long a frozen or unreachable instance keeps its locks. From 2 s; default 10 s. */
  expiry?: Duration | undefined
  /** `required` (the default): refuse to open where session locks cannot be trusted. `none`: do without them. */
  anchor?: 'required' | 'none' | undefined
  /** Whether to bring the schema up to date when opening. Default true; with false an outdated schema is an error. */
  migrate?: boolean | undefined
  jobs?: JobsSettings | undefined
  /** On how many connections, at most, this instance waits for contended names. Default 4; opened when needed. */
  waitConnections?: number | undefined
}

const optionRules = {
  url: text,
  pool: objectWith<PgPool>('a pool of node-postgres', 'connect', 'query', 'on', 'options'),
  sql: objectWith<PostgresJs>('the sql of postgres.js', 'options'),
  directUrl: text,
  namespace: text,
  schema: text,
  expiry: duration(2_000, 86_400_000),
  anchor: oneOf('required', 'none'),
  migrate: flag,
  waitConnections: wholeNumber(1, 100),
  jobs: { expected: 'an object', read: (given: unknown) => given },
}
/** What drivers and other libraries call it. */
const aliases = { connectionString: 'url', connection: 'url', databaseUrl: 'url', client: 'pool' }
const jobsOptionRules = { keep: duration(86_400_000, 3_650 * 86_400_000), claims: oneOf('rows', 'advisory') }

/** What the rooms stand on. */
export interface InstanceContext {
  readonly database: Database
  /** For what keeps alive: the same where there is an anchor, which does that. */
  readonly keepaliveDatabase: Database
  /** Whether writes to these succeed. */
  readonly writes: WriteMonitor
  /** Undefined when the instance has no session of its own. */
  readonly anchor: Anchor | undefined
  readonly presence: Presence
  readonly names: NameRegistry
  readonly waits: WaitTracker
  readonly schema: string
  readonly namespace: string
  /** The way past a pooler, where one was given. */
  readonly direct: Connection | undefined
  readonly expiryMs: number
  readonly waitConnections: number
  readonly keepDays: number
  readonly claims: 'rows' | 'advisory'
  readonly events: Events
  readonly tracing: TracerSlot
}

/** The version of this package. */
export const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version

/** Connects, proves that session locks work here, and migrates. Throws, with everything closed again, when one of these cannot be done. */
export async function openInstanceContext(options: HoldfastOptions): Promise<InstanceContext> {
  const {
    namespace = 'default',
    schema = 'holdfast',
    expiry = 10_000,
    anchor: anchorOption = 'required',
    migrate: shouldMigrate = true,
    waitConnections = 4,
    directUrl,
    jobs,
  } = readOptions('Holdfast.open', options, optionRules, aliases)
  const { keep = 7 * 86_400_000, claims = 'rows' } = readOptions('jobs', jobs, jobsOptionRules)
  checkName(namespace, 'namespace')
  const expiryMs = Math.ceil(expiry)
  checkSchemaName(schema)
  const connection = directUrl ? { connectionString: checkUrl(directUrl, 'directUrl') } : undefined
  const writes = new WriteMonitor()
  const database = writes.wrap(openDatabase(options ?? {}))
  const events = new Events()
  let anchor: Anchor | undefined
  try {
    if (anchorOption === 'required') {
      anchor = new Anchor({
        database,
        connection: connection ?? database.connection,
        schema,
        namespace,
        expiryMs,
        version,
        events,
      })
      await anchor.prove()
    }
    if (shouldMigrate) await migrate(database, schema)
    checkSchema(await schemaState(database, schema), schema)
    await anchor?.start()
    // What keeps an instance alive has connections of its own: a pool that the program has used up must not end it.
    const keepaliveDatabase = anchor ? database : writes.wrap(openPgPool(database.connection, 2))
    const presence =
      anchor ?? new RowPresence({ database: keepaliveDatabase, schema, namespace, expiryMs, version, events })
    return {
      database,
      keepaliveDatabase,
      writes,
      anchor,
      presence,
      names: new NameRegistry(schema),
      waits: new WaitTracker({ anchor, keepaliveDatabase, instanceId: presence.instanceId, schema }),
      schema,
      namespace,
      direct: connection,
      expiryMs,
      waitConnections,
      keepDays: Math.ceil(keep / 86_400_000),
      claims,
      events,
      tracing: { tracer: undefined },
    }
  } catch (error) {
    // The anchor does not ask why.
    const explained = await explainReadOnly(error, database)
    await anchor?.close()
    await database.close()
    throw explained
  }
}

function openDatabase(options: HoldfastOptions): Database {
  const given = [options.url, options.pool, options.sql].filter((way) => way !== undefined)
  if (given.length !== 1) {
    throw new UsageError(
      `Expected exactly one of url, pool and sql, got ${given.length}`,
      'For example Holdfast.open({ url: process.env.DATABASE_URL }), with the variable set.',
    )
  }
  if (options.url !== undefined) return openPgPool({ connectionString: options.url })
  if (options.pool !== undefined) return fromPgPool(options.pool)
  return fromPostgresJs(options.sql!)
}
