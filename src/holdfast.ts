import {
  ClosedError,
  checkSubscription,
  closeOptionRules,
  type Duration,
  defaultTimes,
  duration,
  type EventName,
  type HoldfastEvents,
  readOptions,
  resultWithin,
} from './base/index.js'
import type { Diagnosis } from './doctor/index.js'
import { Elections } from './elections/index.js'
import { type HoldfastOptions, type InstanceContext, openInstanceContext } from './instance-context.js'
import { type JobDefinition, Jobs } from './jobs/index.js'
import { Leases } from './leases/index.js'
import { Limits } from './limits/index.js'
import { Locks } from './locks/index.js'
import { EventLog } from './log/index.js'
import { Once, transactionContext } from './once/index.js'
import {
  type Anchor,
  type Database,
  Draining,
  type Health,
  HealthCheck,
  type HealthReason,
  type NameLocker,
  type NameRegistry,
  type Presence,
  type WaitTracker,
  watchHosts,
} from './postgres/index.js'
import { Samples } from './samples/index.js'
import { type JobPort, Schedules } from './schedules/index.js'
import { Shares } from './shares/index.js'

export interface DoctorOptions {
  readonly patience?: Duration | undefined
}

/** Maximum time for which `close` may continue to record the last statistics, names and wait records. */
const lastWritesMs = 1_000

/**
 * A Holdfast instance, which makes this process a member of the fleet.
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
  /** @internal For the test kit and telemetry. */
  readonly context: Pick<InstanceContext, 'database' | 'direct' | 'schema' | 'expiryMs' | 'events' | 'tracing'>
  /** @internal For tests. */
  readonly samples: Samples
  readonly #databases: ReadonlySet<Database>
  readonly #presence: Presence
  readonly #health: HealthCheck
  readonly #anchor: Anchor | undefined
  readonly #draining: Draining
  readonly #waits: WaitTracker
  readonly #names: NameRegistry
  readonly #log: EventLog
  #stopWatching = () => {}
  #closing: Promise<void> | undefined

  /**
   * Connects, verifies that session locks work, migrates the schema and makes this process a member of the fleet. If one of these steps
   * fails, closes the connections that Holdfast opened and throws.
   *
   * @example
   * await using holdfast = await Holdfast.open({ url: process.env.DATABASE_URL, namespace: 'billing' })
   */
  static async open(options: HoldfastOptions): Promise<Holdfast> {
    const context = await openInstanceContext(options)
    const { anchor, database, direct, expiryMs, schema } = context
    const instance = new Holdfast(context)
    try {
      await anchor?.listen(schema, (payload) => instance.#onNotification(payload))
    } catch (error) {
      await instance.close()
      throw error
    }
    // Drain requests are accepted only now, because the instance starts to listen for them in the previous step.
    instance.#draining.acceptRequests()
    // The check interval is short enough to close connections to an old primary before the new primary grants the same locks to other
    // instances.
    instance.#stopWatching = watchHosts([database.connection, ...(direct ? [direct] : [])], 0.4 * expiryMs)
    context.instanceName.onOpened()
    return instance
  }

  private constructor(context: InstanceContext) {
    const { namespace, database, keepaliveDatabase, presence, waits, names } = context
    this.namespace = namespace
    this.#log = new EventLog({ ...context, instance: presence })
    this.context = context
    this.#databases = new Set([database, keepaliveDatabase])
    this.#presence = presence
    const hasAnchor = context.anchor !== undefined
    this.#health = new HealthCheck({
      database,
      presence,
      hasAnchor,
      name: context.instanceName,
      isDraining: () => this.draining.aborted,
      isClosing: () => this.#closing !== undefined,
      reasons: () => this.#healthReasons(context),
    })
    this.#anchor = context.anchor
    this.#waits = waits
    this.#names = names
    this.samples = new Samples({ ...context, isClosing: () => this.#closing !== undefined })
    this.locks = new Locks(context)
    this.leases = new Leases(context)
    this.limits = new Limits(context)
    const locker = context.anchor ? this.locks : lockerFromLeases(this.leases, context.expiryMs)
    this.elections = new Elections({ ...context, locker })
    const attempts = transactionContext({ ...context, instanceId: presence.instanceId })
    this.once = new Once({ ...context, attempts })
    this.jobs = new Jobs({ ...context, attempts, onWorker: () => this.schedules.onWorker() })
    this.shares = new Shares({ ...context, locker })
    this.schedules = new Schedules({
      ...context,
      attempts,
      jobs: jobPortOf(this.jobs),
    })
    this.#draining = new Draining(
      presence,
      context.events,
      [this.jobs, this.schedules, this.elections, this.shares],
      [this.once, this.limits, this.leases, this.locks],
    )
  }

  /** This instance's random ID. It never changes. */
  get id(): string {
    return this.#presence.instanceId
  }

  /**
   * This instance's name, as shown by `holdfast instance ls`. Differs from the `name` option by a suffix such as `#2` if another live
   * instance had the name when this instance opened or reconnected. With `anchor: 'none'`, Holdfast checks the name only when the
   * instance first uses a permit, a job worker, a schedule, an election, a share or `once`.
   *
   * @example
   * log.info(`opened as ${holdfast.name}`)
   */
  get name(): string {
    return this.#presence.name
  }

  /**
   * Calls the listener for each of this instance's events with this name (see `HoldfastEvents`). Returns a function
   * that removes the listener. Errors that listeners throw are ignored. Past events are not delivered. While an event
   * has such a listener, the instance does not print the event to stderr (see the `log` option).
   *
   * @example
   * const stop = holdfast.on('job.failed', ({ kind, id, state, error }) => log.warn({ kind, id, state, error }))
   */
  on<Name extends EventName>(name: Name, listener: (event: HoldfastEvents[Name]) => void): () => void {
    checkSubscription(name, listener)
    return this.context.events.handle(name, listener)
  }

  /**
   * Returns this instance's health, for health checks. Queries the database at most once every 3 seconds. Never throws.
   *
   * @example
   * const { status, reasons } = await holdfast.health()
   */
  health(): Promise<Health> {
    return this.#health.check()
  }

  /**
   * Checks the database and the fleet for current and future problems, like `holdfast doctor`. Changes nothing. Reports long transactions,
   * paused queues and jobs without a worker only after the condition has lasted for `patience` (default `10m`, and `30s` for jobs without
   * a worker).
   *
   * @example
   * const { findings } = await holdfast.doctor({ patience: '1h' })
   */
  async doctor(options?: DoctorOptions): Promise<Diagnosis> {
    if (this.#closing) throw new ClosedError('This instance')
    const { patience } = readOptions('doctor', options, { patience: duration(0) })
    // Most programs never call the doctor, so it is not loaded when they start.
    const { examine } = await import('./doctor/index.js')
    return examine({ ...this.context, toleranceMs: patience })
  }

  /**
   * Starts a graceful shutdown: stops claiming new work and lets running work finish. Workers claim no more jobs,
   * schedules start no more runs, and leaders and resource owners hand over to other instances. The process and its
   * running work can still use locks, leases, limits and once.
   *
   * Resolves after at most `within` (default `30s`), with true if no work is left. Otherwise resolves with false: the
   * remaining work's signals abort, and draining continues. Draining cannot be undone. A second call only waits.
   *
   * @example
   * process.once('SIGTERM', async () => {
   *   await holdfast.drain({ within: '20s' })
   *   await holdfast.close()
   * })
   */
  drain(options?: { within?: Duration | undefined }): Promise<boolean> {
    const { within = defaultTimes.drainWithinMs } = readOptions('drain', options, closeOptionRules)
    return this.#draining.begin(within)
  }

  /**
   * Signal that aborts when draining starts, either through `drain` or through `holdfast instance drain`. `health()` also reports draining.
   *
   * @example
   * app.get('/ready', (_, reply) => reply.code(holdfast.draining.aborted ? 503 : 200).send())
   */
  get draining(): AbortSignal {
    return this.#draining.signal
  }

  /**
   * Promise that resolves when the instance has drained, no matter who requested draining. The process continues to run until you end it.
   *
   * @example
   * holdfast.drained.then(() => holdfast.close())
   */
  get drained(): Promise<void> {
    return this.#draining.whenDrained
  }

  /** Releases everything, leaves the fleet and closes the connections that Holdfast opened. May be called more than once. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#stopWatching()
    for (const database of this.#databases) database.shortenTimeouts()
    // Writes that the program did not await, such as an enqueue, may finish first. After that, closing the modules rejects all waiting
    // calls.
    const rooms = [this.jobs, this.schedules, this.once]
    await resultWithin(this.context.expiryMs, Promise.all(rooms.map((room) => room.waitForWrites())))
    // Schedules are closed before jobs, because schedule runs may enqueue jobs.
    await this.schedules.close()
    await this.jobs.close()
    // Modules that run the user's functions are closed first, because these functions may use all other modules until they have finished.
    await Promise.all([this.elections.close(), this.shares.close(), this.once.close()])
    await this.limits.close()
    await this.leases.close()
    await this.locks.close()
    // The time is limited because statistics must not prevent the process from exiting.
    await resultWithin(lastWritesMs, Promise.all([this.#waits.close(), this.#names.close(), this.samples.close()]))
    await this.#presence.close()
    this.context.events.emitter('instance.closed')?.({})
    this.#log.close()
    await Promise.all([...this.#databases].map((database) => database.close()))
  }

  *#healthReasons({ writes }: InstanceContext): Iterable<HealthReason> {
    if (writes.trouble) yield writes.trouble
    for (const room of [this.jobs, this.schedules, this.elections, this.shares]) yield* room.troubles()
  }

  /** Dispatches a notification to its module. Notifications are only hints, so unknown notifications are ignored. */
  #onNotification(payload: string): void {
    const [message, key, detail] = payload.split(' ')
    if (!key) return
    if (message === 'lock-release-requested' && detail === this.id) this.locks.onReleaseRequested(key)
    else if (message === 'lease-released') this.leases.onReleased(key)
    else if (message === 'lease-expired') this.leases.onExpired(key)
    else if (message === 'permit-granted' && detail) this.limits.onGranted(key, detail)
    else if (message === 'limit-reset') this.limits.onReset(key)
    else if (message?.startsWith('jobs-')) this.jobs.onNotification(message, key)
    else if (message?.startsWith('schedule-')) this.schedules.onNotification(message, key)
    else if (message === 'election-changed') this.elections.onElectionChanged(key)
    else if (message === 'share-members-changed') this.shares.onMembersChanged(key)
    else if (message === 'resource-released') this.shares.onResourceReleased(key)
    else if (message === 'drain-requested' && key === this.id) void this.#anchor?.checkDrainRequest()
  }
}

/** Adapts jobs to the interface that schedules use. */
function jobPortOf(jobs: Jobs): JobPort {
  return {
    enqueue: (job, input, tx) => jobs.enqueue(job as JobDefinition, input as never, { tx }),
    prepare: (job, input, priority) => jobs.prepare(job as JobDefinition, input, priority),
    get hasWorker() {
      return jobs.hasWorker
    },
  }
}

/**
 * Adapts leases to the interface of locks. With this adapter, the lease of a dead holder blocks a name no longer than a
 * dead holder's lock would.
 */
function lockerFromLeases(leases: Leases, expiryMs: number): NameLocker {
  return {
    acquire: (name, options) => leases.acquire(name, { ttl: expiryMs, ...options }),
    tryAcquire: (name, options) => leases.tryAcquire(name, { ttl: expiryMs, ...options }),
  }
}
