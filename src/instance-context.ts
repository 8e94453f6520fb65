// Context shared by all of an instance's modules. The context is created from the options before the modules are
// created.
import { readFileSync } from 'node:fs'
import {
  callback,
  checkName,
  type Duration,
  defaultTimes,
  duration,
  Events,
  flag,
  type Middleware,
  type MiddlewareStack,
  middlewareRule,
  noMiddleware,
  objectWith,
  oneOf,
  readOptions,
  type TracerSlot,
  text,
  UsageError,
  wholeNumber,
} from './base/index.js'
import { type Logger, logOption } from './log/index.js'
import {
  Anchor,
  beginGeneration,
  type Connection,
  checkConnections,
  checkInstanceName,
  checkSchema,
  checkSchemaName,
  checkUrl,
  checkVersion,
  type Database,
  explainReadOnly,
  fromPgPool,
  fromPostgresJs,
  HolderLookup,
  InstanceName,
  isUpToDate,
  maxVersionLength,
  migrate,
  NameRegistry,
  type OpenTransaction,
  openPgPool,
  type PgPool,
  type PostgresJs,
  type Presence,
  RowPresence,
  schemaState,
  type TransactionOption,
  WaitTracker,
  WriteMonitor,
} from './postgres/index.js'

export interface JobsSettings {
  /**
   * Retention time of finished jobs. Holdfast deletes finished jobs in whole partitions. Done jobs may be kept for up to half of `retain`
   * longer, other ended jobs for up to one day longer. If instances have different values, the shortest value applies. At least `1d`; default
   * `7d`.
   */
  retain?: Duration | undefined
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
  /** URL of the same database that bypasses a pooler in transaction mode. The anchor uses this URL. */
  directUrl?: string | undefined
  /**
   * Function that opens a transaction of your library, such as `(work) => db.transaction(work)`. With this option, `tx`
   * in handlers of jobs, schedules and `once` is a promise of your library's transaction. Declare its type with
   * `Register`. See docs/guides/handler-transactions.md.
   */
  transaction?: TransactionOption | undefined
  /** Namespace that separates your names from other applications' names in the same database. Default: `default`. */
  namespace?: string | undefined
  /**
   * This instance's name, as shown by the command line, the dashboard and error messages. At most 63 characters.
   * Default: `<host>/<pid>`. If another live instance in the namespace has the same name, Holdfast appends a suffix
   * such as `#2`.
   */
  name?: string | undefined
  /**
   * Version of your program, such as `2.4.1` or a commit. At most 63 characters. The dashboard shows when instances with another version
   * joined. Default: the version in your package.json, if npm has started the program.
   */
  version?: string | undefined
  /** Database schema that contains Holdfast's tables. Default: `holdfast`. */
  schema?: string | undefined
  /** Time after which a frozen or unreachable instance loses its locks. At least 2 seconds. Default: 10 seconds. */
  expiry?: Duration | undefined
  /**
   * With `required` (the default), opening fails if session locks do not work reliably. With `none`, elections and shares use
   * leases, and `locks.acquire`, `locks.tryAcquire` and `locks.with` throw.
   */
  anchor?: 'required' | 'none' | undefined
  /** Whether `open` migrates the schema. Default: true. If false, `open` throws if the schema is outdated. */
  migrate?: boolean | undefined
  jobs?: JobsSettings | undefined
  /**
   * Functions that wrap each enqueue and each handler call of jobs, schedules and `once`. The first middleware is the
   * outermost one. See docs/guides/middleware.md.
   */
  middleware?: readonly Middleware[] | undefined
  /**
   * Destination of warnings and errors, such as a failed job or a lost session. The default is one line to stderr for
   * each event for which the program has no listener (`holdfast.on`). With a logger, such as `console` or a pino
   * logger, every line goes to the logger. With `false`, nothing is logged. At most 10 lines of each kind are written
   * every 10 seconds.
   */
  log?: Logger | false | undefined
  /** Maximum number of connections on which this instance waits for contended names. Default: 4. The connections are opened on demand. */
  waitConnections?: number | undefined
  /**
   * Maximum number of connections for statements, if you pass `url` or `sql`. Transactions of handlers use up to twice as many additional
   * connections. Default: 5. All connections are opened on demand, and closed after 10 s without use. See docs/operating/capacity.md.
   */
  poolSize?: number | undefined
}

const optionRules = {
  url: text,
  pool: objectWith<PgPool>('a pool of node-postgres', 'connect', 'query', 'on', 'options'),
  sql: objectWith<PostgresJs>('the sql of postgres.js', 'options'),
  directUrl: text,
  transaction: callback<OpenTransaction>('a function'),
  namespace: text,
  name: { expected: 'a name', read: checkInstanceName },
  version: { expected: 'a version', read: checkVersion },
  schema: text,
  expiry: duration(2_000, 86_400_000),
  anchor: oneOf('required', 'none'),
  migrate: flag,
  waitConnections: wholeNumber(1, 100),
  poolSize: wholeNumber(1, 1_000),
  log: logOption,
  middleware: middlewareRule,
  jobs: { expected: 'an object', read: (given: unknown) => given },
}
/** Option names of drivers and other libraries, mapped to the names of Holdfast's options. */
const aliases = { connectionString: 'url', connection: 'url', databaseUrl: 'url', client: 'pool' }
const jobsOptionRules = { retain: duration(86_400_000, 3_650 * 86_400_000) }

/** Context shared by all of an instance's modules. */
export interface InstanceContext {
  readonly database: Database
  /**
   * Database access for the statements that keep the instance alive. Differs from `database` only if there is no anchor, and the pool can
   * have more than one connection.
   */
  readonly keepaliveDatabase: Database
  readonly writes: WriteMonitor
  /** The instance's anchor. Undefined with the `anchor: 'none'` option. */
  readonly anchor: Anchor | undefined
  readonly presence: Presence
  readonly instanceName: InstanceName
  readonly names: NameRegistry
  /** Finds the holders of names for error messages. */
  readonly holders: HolderLookup
  readonly waits: WaitTracker
  readonly schema: string
  readonly namespace: string
  /** The `transaction` option. Undefined if Holdfast opens the transactions of handlers. */
  readonly openTransaction: OpenTransaction | undefined
  /** Connection settings that bypass a pooler, if `directUrl` was given. */
  readonly direct: Connection | undefined
  readonly expiryMs: number
  readonly waitConnections: number
  readonly retainDays: number
  /** The `log` option. Undefined means stderr. */
  readonly log: Logger | false | undefined
  readonly events: Events
  readonly tracing: TracerSlot
  readonly middleware: MiddlewareStack
}

/** The version in the program's package.json. Undefined unless npm has started the program. */
function npmVersion(): string | undefined {
  return process.env.npm_package_version?.slice(0, maxVersionLength) || undefined
}

/** The version of this package. */
export const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version

/**
 * Connects, verifies that session locks work, and migrates the schema. If one of these steps fails, closes the connections that Holdfast
 * opened and throws.
 */
export async function openInstanceContext(options: HoldfastOptions): Promise<InstanceContext> {
  const {
    namespace = 'default',
    name: givenName,
    version: appVersion = npmVersion(),
    schema = 'holdfast',
    expiry = defaultTimes.expiryMs,
    anchor: anchorOption = 'required',
    migrate: shouldMigrate = true,
    waitConnections = 4,
    directUrl,
    transaction: openTransaction,
    jobs,
    log,
    middleware = noMiddleware,
  } = readOptions('Holdfast.open', options, optionRules, aliases)
  const { retain = defaultTimes.jobRetainMs } = readOptions('jobs', jobs, jobsOptionRules)
  checkName(namespace, 'namespace')
  const expiryMs = Math.ceil(expiry)
  checkSchemaName(schema)
  const connection = directUrl ? { connectionString: checkUrl(directUrl, 'directUrl') } : undefined
  const writes = new WriteMonitor()
  const database = writes.wrap(openDatabase(options ?? {}))
  const events = new Events()
  const name = new InstanceName(givenName, events)
  const retainDays = Math.ceil(retain / 86_400_000)
  let anchor: Anchor | undefined
  try {
    if (anchorOption === 'required') {
      anchor = new Anchor({
        database,
        connection: connection ?? database.connection,
        schema,
        namespace,
        name,
        retainDays,
        expiryMs,
        version,
        appVersion,
        events,
      })
    }
    // The pool connects after the anchor, because a pool that is still connecting would delay the error if no host responds.
    await anchor?.prove()
    // The anchor uses the same address and has a session of its own, so no transaction pooler is in between.
    if (anchor && !connection) database.prepareStatements()
    let state = await schemaState(database, schema)
    if (shouldMigrate && !isUpToDate(state)) {
      await migrate(database, schema)
      state = await schemaState(database, schema)
    }
    checkSchema(state, schema)
    checkConnections(state, database)
    if (database.hasOneConnection) await beginGeneration(database, schema)
    await anchor?.start()
    // Renewals use separate connections, because an instance must not expire when the program has exhausted the pool.
    const sharesPool = anchor || database.hasOneConnection
    const keepaliveDatabase = sharesPool ? database : writes.wrap(openPgPool(database.connection, 2))
    const presence =
      anchor ??
      new RowPresence({
        ...{ database: keepaliveDatabase, schema, namespace, name, retainDays, expiryMs, version, appVersion, events },
      })
    const names = new NameRegistry({ anchor, keepaliveDatabase, schema })
    return {
      database,
      keepaliveDatabase,
      writes,
      anchor,
      presence,
      instanceName: name,
      names,
      holders: new HolderLookup(database, schema),
      waits: new WaitTracker({ anchor, keepaliveDatabase, names, presence, schema }),
      schema,
      namespace,
      openTransaction,
      direct: connection,
      expiryMs,
      waitConnections,
      retainDays,
      log,
      events,
      tracing: { tracer: undefined },
      middleware,
    }
  } catch (error) {
    // Adds an explanation, because errors from the anchor do not contain one yet.
    const explained = await explainReadOnly(error, database)
    await anchor?.close()
    await database.close()
    throw explained
  }
}

function openDatabase(options: HoldfastOptions): Database {
  const { poolSize } = options
  const given = [options.url, options.pool, options.sql].filter((way) => way !== undefined)
  if (given.length !== 1) {
    throw new UsageError(
      `Expected exactly one of url, pool and sql, got ${given.length}`,
      given.length > 1
        ? 'A pool has its own connection settings: pass { pool } without url.'
        : 'For example: Holdfast.open({ url: process.env.DATABASE_URL }). Check that the variable is set.',
    )
  }
  if (options.url !== undefined) return openPgPool({ connectionString: options.url }, poolSize)
  if (options.sql !== undefined) return fromPostgresJs(options.sql, poolSize)
  if (poolSize === undefined) return fromPgPool(options.pool!)
  throw new UsageError(
    'Expected no poolSize together with pool, because the pool has a size of its own',
    'Pass the size to your pool: new pg.Pool({ max: 20 }).',
  )
}
