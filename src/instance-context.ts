// Everything that the rooms of an instance share. The context is created from the options before any room.
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
   * Retention of ended jobs. Holdfast deletes whole days, so a job may be kept for up to one day longer. If instances have different
   * values, the shortest applies. At least `1d`; default `7d`.
   */
  keep?: Duration | undefined
}

export interface HoldfastOptions {
  /**
   * URL of the database: `postgres://user:password@host:5432/database`. With several hosts, such as `…@one:5432,two:5432/database`,
   * Holdfast connects to the primary. Exactly one of `url`, `pool` and `sql` is required.
   */
  url?: string | undefined
  /** Your node-postgres pool. Holdfast never closes this pool. For several hosts, create the pool with `Client: HostsClient`. */
  pool?: PgPool | undefined
  /**
   * Your postgres.js instance. Holdfast opens a few connections of its own to the same database. For several hosts, set
   * `target_session_attrs: 'primary'`.
   */
  sql?: PostgresJs | undefined
  /** URL of the same database that bypasses a pooler in transaction mode. The anchor connects to this URL. */
  directUrl?: string | undefined
  /** Separates your names from those of other applications in the same database. Default `default`. */
  namespace?: string | undefined
  /** The schema of Holdfast's tables. Default `holdfast`. */
  schema?: string | undefined
  /** Time after which a frozen or unreachable instance loses its locks. At least 2 s; default 10 s. */
  expiry?: Duration | undefined
  /** `required` (the default): opening fails if session locks cannot be trusted. `none`: Holdfast uses leases instead of session locks. */
  anchor?: 'required' | 'none' | undefined
  /** Whether opening migrates the schema. Default true. If false, an outdated schema is an error. */
  migrate?: boolean | undefined
  jobs?: JobsSettings | undefined
  /** Maximum number of connections on which this instance waits for contended names. Default 4. The connections are opened on demand. */
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
/** Option names that drivers and other libraries use. */
const aliases = { connectionString: 'url', connection: 'url', databaseUrl: 'url', client: 'pool' }
const jobsOptionRules = { keep: duration(86_400_000, 3_650 * 86_400_000) }

/** Everything that the rooms of an instance share. */
export interface InstanceContext {
  readonly database: Database
  /** For statements that keep the instance alive. Separate from `database` only if there is no anchor. */
  readonly keepaliveDatabase: Database
  readonly writes: WriteMonitor
  /** Undefined with the option `anchor: 'none'`. */
  readonly anchor: Anchor | undefined
  readonly presence: Presence
  readonly names: NameRegistry
  readonly waits: WaitTracker
  readonly schema: string
  readonly namespace: string
  /** Connection that bypasses a pooler, if `directUrl` was given. */
  readonly direct: Connection | undefined
  readonly expiryMs: number
  readonly waitConnections: number
  readonly keepDays: number
  readonly events: Events
  readonly tracing: TracerSlot
}

/** The version of this package. */
export const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version

/** Connects, proves that session locks work, and migrates. If one of these steps fails, closes everything and throws. */
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
  const { keep = 7 * 86_400_000 } = readOptions('jobs', jobs, jobsOptionRules)
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
    // Renewals have their own connections: an instance must not expire because the program has exhausted the pool.
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
      events,
      tracing: { tracer: undefined },
    }
  } catch (error) {
    // Errors from the anchor do not contain an explanation yet.
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
