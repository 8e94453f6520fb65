import {
  ClosedError,
  checkSubscription,
  closeOptionRules,
  type Duration,
  duration,
  type EventName,
  type HoldfastEvents,
  readOptions,
  resultWithin,
} from './base/index.js'
import { type Diagnosis, examine } from './doctor/index.js'
import { Elections } from './elections/index.js'
import { type HoldfastOptions, type InstanceContext, openInstanceContext } from './instance-context.js'
import { type JobDefinition, Jobs } from './jobs/index.js'
import { Leases } from './leases/index.js'
import { Limits } from './limits/index.js'
import { Locks } from './locks/index.js'
import { Once } from './once/index.js'
import {
  type Anchor,
  type Database,
  Draining,
  drainWithinMs,
  type Health,
  HealthCheck,
  type HealthReason,
  type NameLocker,
  type Presence,
  type WaitTracker,
  watchHosts,
} from './postgres/index.js'
import { Samples } from './samples/index.js'
import { Schedules } from './schedules/index.js'
import { Shares } from './shares/index.js'

export interface DoctorOptions {
  readonly patience?: Duration | undefined
}

/** The last that is written down may take so long. */
const lastWritesMs = 2_000

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
  readonly context: Pick<InstanceContext, 'database' | 'direct' | 'schema' | 'expiryMs' | 'events' | 'tracing'>
  /** @internal For tests. */
  readonly samples: Samples
  readonly #databases: ReadonlySet<Database>
  readonly #presence: Presence
  readonly #health: HealthCheck
  readonly #anchor: Anchor | undefined
  readonly #draining: Draining
  readonly #waits: WaitTracker
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
    const context = await openInstanceContext(options)
    const { anchor, database, direct, expiryMs, schema } = context
    const instance = new Holdfast(context)
    try {
      await anchor?.listen(schema, (payload) => instance.#onNotification(payload))
    } catch (error) {
      await instance.close()
      throw error
    }
    // Now that it would hear of it.
    instance.#draining.acceptRequests()
    // So often that what is believed in by way of an old primary has been cut before the new one grants it to others.
    instance.#stopWatching = watchHosts([database.connection, ...(direct ? [direct] : [])], 0.4 * expiryMs)
    return instance
  }

  private constructor(context: InstanceContext) {
    const { namespace, database, keepaliveDatabase, presence, waits } = context
    this.namespace = namespace
    this.context = context
    this.#databases = new Set([database, keepaliveDatabase])
    this.#presence = presence
    const hasAnchor = context.anchor !== undefined
    this.#health = new HealthCheck({
      database,
      presence,
      hasAnchor,
      isDraining: () => this.draining.aborted,
      isClosing: () => this.#closing !== undefined,
      reasons: () => this.#healthReasons(context),
    })
    this.#anchor = context.anchor
    this.#waits = waits
    this.samples = new Samples({ ...context, isClosing: () => this.#closing !== undefined })
    this.locks = new Locks(context)
    this.leases = new Leases({ ...context, instanceId: presence.instanceId })
    this.limits = new Limits(context)
    const locker = context.anchor ? this.locks : lockerFromLeases(this.leases, context.expiryMs)
    this.elections = new Elections({ ...context, locker })
    this.once = new Once(context)
    this.jobs = new Jobs(context)
    this.shares = new Shares({ ...context, locker })
    this.schedules = new Schedules({
      ...context,
      jobs: { enqueue: (job, input, tx) => this.jobs.enqueue(job as JobDefinition, input, { tx }) },
    })
    this.#draining = new Draining(
      presence,
      context.events,
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
    return this.context.events.on(name, listener)
  }

  /**
   * How this instance is, for whoever watches over the process. However often it is asked, the database is asked once in
   * three seconds at most. Never throws.
   *
   * @example
   * const { status, reasons } = await holdfast.health()
   */
  health(): Promise<Health> {
    return this.#health.check()
  }

  /**
   * Looks for what is wrong with the database and the fleet, or will be, as `holdfast doctor` does; changes nothing. What lasts
   * for less than `patience` (default `10m`) is not told: transactions, pauses, jobs that nobody runs.
   *
   * @example
   * const { findings } = await holdfast.doctor({ patience: '1h' })
   */
  async doctor(options?: DoctorOptions): Promise<Diagnosis> {
    if (this.#closing) throw new ClosedError('This instance')
    const { patience } = readOptions('doctor', options, { patience: duration(0) })
    return examine({ ...this.context, toleranceMs: patience })
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
    const { within = drainWithinMs } = readOptions('drain', options, closeOptionRules)
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
    for (const database of this.#databases) database.shortenTimeouts()
    // Writes that the program has called but not awaited, such as an enqueue, are finished first. Calls that wait are cut off below.
    const rooms = [this.jobs, this.schedules, this.once]
    await resultWithin(this.context.expiryMs, Promise.all(rooms.map((room) => room.waitForWrites())))
    // Its runs may enqueue.
    await this.schedules.close()
    await this.jobs.close()
    // The rooms that run the user's work first: until its end it may use everything else.
    await Promise.all([this.elections.close(), this.shares.close(), this.once.close()])
    await this.limits.close()
    await this.leases.close()
    await this.locks.close()
    // What is written down for people must not keep a process from ending.
    await resultWithin(lastWritesMs, Promise.all([this.#waits.close(), this.samples.close()]))
    await this.#presence.close()
    this.context.events.emitter('instance.closed')?.({})
    await Promise.all([...this.#databases].map((database) => database.close()))
  }

  *#healthReasons({ writes }: InstanceContext): Iterable<HealthReason> {
    if (writes.trouble) yield writes.trouble
    for (const room of [this.jobs, this.schedules, this.elections, this.shares]) yield* room.troubles()
  }

  /** What operators send: a hint, so whatever cannot be understood is ignored. */
  #onNotification(payload: string): void {
    const [message, key, detail] = payload.split(' ')
    if (!key) return
    if (message === 'lock-release-requested') this.locks.onReleaseRequested(key)
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

/** Leases in the place of locks, for rooms made of either: a dead holder keeps a name for as long as it would a lock. */
function lockerFromLeases(leases: Leases, expiryMs: number): NameLocker {
  return {
    acquire: (name, options) => leases.acquire(name, { ttl: expiryMs, ...options }),
    tryAcquire: (name, options) => leases.tryAcquire(name, { ttl: expiryMs, ...options }),
  }
}
