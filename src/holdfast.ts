import {
  atMost,
  ClosedError,
  checkSubscription,
  closeRules,
  type Duration,
  duration,
  type EventName,
  type HoldfastEvents,
  readOptions,
} from './base/index.js'
import { type Diagnosis, examine } from './doctor/index.js'
import { Elections } from './elections/index.js'
import { type Ground, type HoldfastOptions, openGround } from './ground.js'
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
  type Keeper,
  type Presence,
  type Waits,
  watchHosts,
} from './postgres/index.js'
import { Samples } from './samples/index.js'
import { Schedules } from './schedules/index.js'
import { Shares } from './shares/index.js'

export interface DoctorOptions {
  readonly patience?: Duration | undefined
}

/** The last that is written down may take so long. */
const lastNotesMs = 2_000

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
    const ground = await openGround(options)
    const { anchor, database, direct, expiryMs, schema } = ground
    const instance = new Holdfast(ground)
    try {
      await anchor?.listen(schema, (payload) => instance.#hear(payload))
    } catch (error) {
      await instance.close()
      throw error
    }
    // Now that it would hear of it.
    instance.#draining.listen()
    // So often that what is believed in by way of an old primary has been cut before the new one grants it to others.
    instance.#stopWatching = watchHosts([database.connection, ...(direct ? [direct] : [])], 0.4 * expiryMs)
    return instance
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
      troubles: () => this.#troubles(ground),
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
  async doctor(options?: DoctorOptions): Promise<Diagnosis> {
    if (this.#closing) throw new ClosedError('This instance')
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
    const { within = drainWithinMs } = readOptions('drain', options, closeRules)
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
    for (const database of this.#databases) database.hurry()
    // Writes that the program has called but not awaited, such as an enqueue, are finished first. Calls that wait are cut off below.
    const rooms = [this.jobs, this.schedules, this.once]
    await atMost(this.ground.expiryMs, Promise.all(rooms.map((room) => room.written())))
    // Its runs may enqueue.
    await this.schedules.close()
    await this.jobs.close()
    // The rooms that run the user's work first: until its end it may use everything else.
    await Promise.all([this.elections.close(), this.shares.close(), this.once.close()])
    await this.limits.close()
    await this.leases.close()
    await this.locks.close()
    // What is written down for people must not keep a process from ending.
    await atMost(lastNotesMs, Promise.all([this.#waits.close(), this.samples.close()]))
    await this.#presence.close()
    this.ground.events.to('instance.closed')?.({})
    await Promise.all([...this.#databases].map((database) => database.close()))
  }

  *#troubles({ writes }: Ground): Iterable<HealthReason> {
    if (writes.trouble) yield writes.trouble
    for (const room of [this.jobs, this.schedules, this.elections, this.shares]) yield* room.troubles()
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
