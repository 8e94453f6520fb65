import { readFileSync } from 'node:fs'
import {
  checkName,
  checkSubscription,
  type Duration,
  duration,
  type EventName,
  Events,
  flag,
  type HoldfastEvents,
  made,
  oneOf,
  readOptions,
  type Tracing,
  text,
  UsageError,
  wholeNumber,
} from './base/index.js'
import { type Diagnosis, examine } from './doctor/index.js'
import { Elections } from './elections/index.js'
import { type JobDefinition, Jobs } from './jobs/index.js'
import { Leases } from './leases/index.js'
import { Limits } from './limits/index.js'
import { Locks } from './locks/index.js'
import { Once } from './once/index.js'
import {
  Anchor,
  besidePostgresJs,
  type Connection,
  checkSchema,
  checkSchemaName,
  checkUrl,
  type Database,
  Draining,
  drainWithinMs,
  fromPgPool,
  type Health,
  HealthCheck,
  type Keeper,
  migrate,
  Names,
  openPgPool,
  type PgPool,
  type PostgresJs,
  type Presence,
  RowPresence,
  schemaState,
  Waits,
  watchHosts,
} from './postgres/index.js'
import { Samples } from './samples/index.js'
import { Schedules } from './schedules/index.js'
import { Shares } from './shares/index.js'

export type { Duration, EventName, GivenRule, Handle, HoldfastEvents, Key } from './base/index.js'
export { ClosedError, HoldfastError, InstanceDrainingError, UsageError } from './base/index.js'
export type { Diagnosis, Finding, Mend, Severity } from './doctor/index.js'
export type { Campaign, CampaignOptions, Elections, Leader, Leadership, SteppingDown } from './elections/index.js'
export { SteppedDownError } from './elections/index.js'
export type {
  BatchHandler,
  BatchJob,
  BatchJobOptions,
  BatchOptions,
  ChildOptions,
  EnqueueManyOptions,
  EnqueueOptions,
  FailedAttempt,
  Imported,
  ImportOptions,
  ImportSource,
  JobContext,
  JobDefinition,
  JobOptions,
  JobParent,
  JobRef,
  JobStatus,
  Jobs,
  LaneOptions,
  Outcome,
  RecordedError,
  ResultOptions,
  RetryOptions,
  Schema,
  UniqueOptions,
  WaitsFor,
  WhyLeft,
  Worker,
  WorkflowBuilder,
  WorkflowJob,
  WorkflowJobOptions,
  WorkflowMember,
  WorkflowRef,
  WorkflowStatus,
  WorkOptions,
} from './jobs/index.js'
export {
  cancel,
  DrainingError,
  defineJob,
  discard,
  InvalidInputError,
  JobCancelledError,
  JobFailedError,
  JobLostError,
  JobTimeoutError,
  MixedClaimsError,
  NonRetryableError,
  PayloadTooLargeError,
  retryAfter,
  UniqueKeyBusyError,
  UnknownSourceError,
} from './jobs/index.js'
export type { Lease, LeaseOptions, Leases } from './leases/index.js'
export { LeaseLostError, LeaseTimeoutError } from './leases/index.js'
export type {
  ConsumeOptions,
  LimitOptions,
  Limits,
  LimitUsage,
  Permit,
  PermitUser,
  Rate,
  RateOutcome,
} from './limits/index.js'
export { LimitReachedError, PermitLostError } from './limits/index.js'
export type { KeySpace, Lock, Lockable, LockOptions, Locks, Mode, TransactionLock } from './locks/index.js'
export { LockLostError, LockTimeoutError, ReleaseRequestedError } from './locks/index.js'
export type { Answer, Delivery, Once, OnceInTransactionOptions, OnceOptions, Transaction } from './once/index.js'
export { FingerprintMismatchError, OnceLostError, RecordedFailureError } from './once/index.js'
export type { CallerTransaction, Health, HealthTrouble } from './postgres/index.js'
export {
  DatabaseError,
  DatabaseUnreachableError,
  DeadlockError,
  HostsClient,
  KeyCollisionError,
  LockTableFullError,
  MigrationBlockedError,
  MigrationFailedError,
  PermissionError,
  ReadOnlyError,
  SchemaVersionError,
  SessionLocksUnavailableError,
  StaleFenceError,
  TooManyConnectionsError,
} from './postgres/index.js'
export type {
  JobScheduleOptions,
  PastGap,
  PastRun,
  Schedule,
  ScheduleDefinition,
  ScheduledJob,
  ScheduleOptions,
  ScheduleRun,
  ScheduleStatus,
  Schedules,
} from './schedules/index.js'
export {
  defineSchedule,
  RunDrainingError,
  RunLostError,
  RunReplacedError,
  RunTimeoutError,
  UnknownScheduleError,
} from './schedules/index.js'
export type {
  Assignment,
  EachOptions,
  EachResult,
  Failure,
  LettingGo,
  Owned,
  Resources,
  Shares,
} from './shares/index.js'
export { ResourceMovedError, ResourcesFailedError } from './shares/index.js'

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

export interface DoctorOptions {
  readonly patience?: Duration | undefined
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
  parked?: number | undefined
}

const rules = {
  url: text,
  pool: made<PgPool>('a pool of node-postgres', 'connect', 'query', 'on', 'options'),
  sql: made<PostgresJs>('the sql of postgres.js', 'options'),
  directUrl: text,
  namespace: text,
  schema: text,
  expiry: duration(2_000, 86_400_000),
  anchor: oneOf('required', 'none'),
  migrate: flag,
  parked: wholeNumber(1, 100),
  jobs: { expected: 'an object', read: (given: unknown) => given },
}
const jobsRules = { keep: duration(86_400_000, 3_650 * 86_400_000), claims: oneOf('rows', 'advisory') }

/** What the rooms stand on. */
interface Ground {
  readonly database: Database
  /** For what keeps alive: the same where there is an anchor, which does that. */
  readonly lifeline: Database
  /** Undefined when the instance has no session of its own. */
  readonly anchor: Anchor | undefined
  readonly presence: Presence
  readonly names: Names
  readonly waits: Waits
  readonly schema: string
  readonly namespace: string
  /** The way past a pooler, where one was given. */
  readonly direct: Connection | undefined
  readonly expiryMs: number
  readonly parked: number
  readonly keepDays: number
  readonly claims: 'rows' | 'advisory'
  readonly events: Events
  readonly tracing: Tracing
}

/** The version of this package. */
export const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version

/**
 * One instance: this process, as a member of the fleet.
 *
 * @example
 * const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL, namespace: 'billing' })
 * await holdfast.locks.with('nightly-report', async () => { … })
 * await holdfast.close()
 */
export class Holdfast {
  readonly locks: Locks
  readonly leases: Leases
  readonly limits: Limits
  readonly elections: Elections
  readonly once: Once
  readonly jobs: Jobs
  readonly shares: Shares
  readonly schedules: Schedules
  readonly namespace: string
  /** @internal For the kit of tests, and for telemetry. */
  readonly ground: Pick<Ground, 'database' | 'direct' | 'schema' | 'expiryMs' | 'events' | 'tracing'>
  /** @internal For tests. */
  readonly samples: Samples
  readonly #databases: ReadonlySet<Database>
  readonly #presence: Presence
  readonly #health: HealthCheck
  readonly #anchor: Anchor | undefined
  readonly #draining: Draining
  readonly #waits: Waits
  #stopWatching = () => {}
  #closing: Promise<void> | undefined

  /**
   * Connects, proves that session locks work here, brings the schema up to date and makes this process a member of the
   * fleet. Throws, with everything closed again, when one of these cannot be done.
   *
   * @example
   * await using holdfast = await Holdfast.open({ url: process.env.DATABASE_URL, namespace: 'billing' })
   */
  static async open(options: HoldfastOptions): Promise<Holdfast> {
    const {
      namespace = 'default',
      schema = 'holdfast',
      expiry = 10_000,
      anchor: wanted = 'required',
      migrate: migrates = true,
      parked = 4,
      directUrl,
      jobs,
    } = readOptions('Holdfast.open', options, rules)
    const { keep = 7 * 86_400_000, claims = 'rows' } = readOptions('jobs', jobs, jobsRules)
    checkName(namespace, 'namespace')
    const expiryMs = Math.ceil(expiry)
    checkSchemaName(schema)
    const connection = directUrl ? { connectionString: checkUrl(directUrl, 'directUrl') } : undefined
    const database = databaseOf(options ?? {})
    const events = new Events()
    let anchor: Anchor | undefined
    try {
      if (wanted === 'required') {
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
      if (migrates) await migrate(database, schema)
      checkSchema(await schemaState(database, schema), schema)
      await anchor?.begin()
      // What keeps an instance alive has connections of its own: a pool that the program has used up must not end it.
      const lifeline = anchor ? database : openPgPool(database.connection, 2)
      const presence = anchor ?? new RowPresence({ database: lifeline, schema, namespace, expiryMs, version, events })
      const ground = {
        database,
        lifeline,
        anchor,
        presence,
        names: new Names(schema),
        waits: new Waits({ anchor, lifeline, instanceId: presence.instanceId, schema }),
        schema,
        namespace,
        direct: connection,
        expiryMs,
        parked,
        keepDays: Math.ceil(keep / 86_400_000),
        claims,
        events,
        tracing: { tracer: undefined },
      }
      const instance = new Holdfast(ground)
      await anchor?.listen(schema, (payload) => instance.#hear(payload))
      // Now that it would hear of it.
      instance.#draining.listen()
      // So often that what is believed in by way of an old primary has been cut before the new one grants it to others.
      instance.#stopWatching = watchHosts([database.connection, ...(connection ? [connection] : [])], 0.4 * expiryMs)
      return instance
    } catch (error) {
      await anchor?.close()
      await database.close()
      throw error
    }
  }

  private constructor(ground: Ground) {
    const { namespace, database, lifeline, presence, waits } = ground
    this.namespace = namespace
    this.ground = ground
    this.#databases = new Set([database, lifeline])
    this.#presence = presence
    const hasAnchor = ground.anchor !== undefined
    this.#health = new HealthCheck({
      database,
      presence,
      hasAnchor,
      isDraining: () => this.draining.aborted,
      isClosing: () => this.#closing !== undefined,
    })
    this.#anchor = ground.anchor
    this.#waits = waits
    this.samples = new Samples({ ...ground, isClosing: () => this.#closing !== undefined })
    this.locks = new Locks(ground)
    this.leases = new Leases({ ...ground, instanceId: presence.instanceId })
    this.limits = new Limits(ground)
    const keeper = ground.anchor ? this.locks : keptByLease(this.leases, ground.expiryMs)
    this.elections = new Elections({ ...ground, keeper })
    this.once = new Once(ground)
    this.jobs = new Jobs(ground)
    this.shares = new Shares({ ...ground, keeper })
    this.schedules = new Schedules({
      ...ground,
      jobs: { enqueue: (job, input, tx) => this.jobs.enqueue(job as JobDefinition, input, { tx }) },
    })
    this.#draining = new Draining(
      presence,
      ground.events,
      [this.jobs, this.schedules, this.elections, this.shares],
      [this.once, this.limits, this.leases, this.locks],
    )
  }

  /** The random id of this instance, as `holdfast instance ls` shows it. */
  get id(): string {
    return this.#presence.instanceId
  }

  /**
   * Calls back whenever it happens in this instance; `HoldfastEvents` has the names and what each says. Returns how to stop.
   * What a listener throws harms nothing. Nobody is told twice, or later: there is no history.
   *
   * @example
   * const stop = holdfast.on('job.failed', ({ kind, id, state, error }) => log.warn({ kind, id, state, error }))
   */
  on<Name extends EventName>(name: Name, listener: (event: HoldfastEvents[Name]) => void): () => void {
    checkSubscription(name, listener)
    return this.ground.events.on(name, listener)
  }

  /**
   * How this instance is, for whoever watches over the process. However often it is asked, the database is asked once in
   * three seconds at most. Never throws.
   *
   * @example
   * const { status, reasons } = await holdfast.health()
   */
  health(): Promise<Health> {
    return this.#health.look()
  }

  /**
   * Looks for what is wrong with the database and the fleet, or will be, as `holdfast doctor` does; changes nothing. What lasts
   * for less than `patience` (default `10m`) is not told: transactions, pauses, jobs that nobody runs.
   *
   * @example
   * const { findings } = await holdfast.doctor({ patience: '1h' })
   */
  doctor(options?: DoctorOptions): Promise<Diagnosis> {
    const { patience } = readOptions('doctor', options, { patience: duration(0) })
    return examine({ ...this.ground, patienceMs: patience })
  }

  /**
   * Takes no new work and lets what runs come to its end, for a deployment without a loss: workers claim no more jobs, schedules
   * take no more ticks, leaders and owners of resources hand over. The process lives on, and can still use locks, leases,
   * limits and once; so can the work that runs.
   *
   * Answers within `within` (default `30s`) whether nothing is left. What is left then is told to stop, and draining goes on.
   * It is for good; asking again only waits.
   *
   * @example
   * process.once('SIGTERM', async () => {
   *   await holdfast.drain({ within: '20s' })
   *   await holdfast.close()
   * })
   */
  drain(options?: { within?: Duration | undefined }): Promise<boolean> {
    const { within = drainWithinMs } = readOptions('drain', options, { within: duration(0, 24 * 86_400_000) })
    return this.#draining.begin(within)
  }

  /**
   * Aborts when draining begins: asked for here, or from outside (`holdfast instance drain`). `health()` says so, too.
   *
   * @example
   * app.get('/ready', (_, reply) => reply.code(holdfast.draining.aborted ? 503 : 200).send())
   */
  get draining(): AbortSignal {
    return this.#draining.signal
  }

  /**
   * Resolves when the instance has drained, whoever asked for it. What then becomes of the process is your decision.
   *
   * @example
   * holdfast.drained.then(() => holdfast.close())
   */
  get drained(): Promise<void> {
    return this.#draining.whenDrained
  }

  /** Releases everything, ends the connections that Holdfast opened and leaves. Asking again is harmless. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#stopWatching()
    // Its runs may enqueue.
    await this.schedules.close()
    await this.jobs.close()
    // The rooms that run the user's work first: until its end it may use everything else.
    await Promise.all([this.elections.close(), this.shares.close(), this.once.close()])
    await this.limits.close()
    await this.leases.close()
    await this.locks.close()
    await this.#waits.close()
    await this.samples.close()
    await this.#presence.close()
    this.ground.events.to('instance.closed')?.({})
    await Promise.all([...this.#databases].map((database) => database.close()))
  }

  /** What operators send: a hint, so whatever cannot be understood is ignored. */
  #hear(payload: string): void {
    const [what, key, detail] = payload.split(' ')
    if (!key) return
    if (what === 'release') this.locks.requestRelease(key)
    else if (what === 'lease') this.leases.released(key)
    else if (what === 'expire') this.leases.expired(key)
    else if (what === 'permit' && detail) this.limits.granted(key, detail)
    else if (what === 'reset') this.limits.reset(key)
    else if (what?.startsWith('jobs')) this.jobs.hear(what, key)
    else if (what?.startsWith('schedule')) this.schedules.hear(what, key)
    else if (what === 'election') this.elections.hear(key)
    else if (what === 'members') this.shares.hearMembers(key)
    else if (what === 'share') this.shares.hearLetGo(key)
    else if (what === 'drain' && key === this.id) void this.#anchor?.lookWhetherAsked()
  }
}

/** Leases in the place of locks, for rooms made of either: a dead holder keeps a name for as long as it would a lock. */
function keptByLease(leases: Leases, expiryMs: number): Keeper {
  return {
    acquire: (name, options) => leases.acquire(name, { ttl: expiryMs, ...options }),
    tryAcquire: (name, options) => leases.tryAcquire(name, { ttl: expiryMs, ...options }),
  }
}

function databaseOf(options: HoldfastOptions): Database {
  const given = [options.url, options.pool, options.sql].filter((way) => way !== undefined)
  if (given.length !== 1) {
    throw new UsageError(
      `Expected exactly one of url, pool and sql, got ${given.length}`,
      'For example Holdfast.open({ url: process.env.DATABASE_URL }), with the variable set.',
    )
  }
  if (options.url !== undefined) return openPgPool({ connectionString: options.url })
  if (options.pool !== undefined) return fromPgPool(options.pool)
  return besidePostgresJs(options.sql!)
}
