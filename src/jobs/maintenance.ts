import { backoffMs, type Events } from '../base/index.js'
import { latestVersion, SchemaVersionError } from '../postgres/index.js'
import type { JobStore } from './store.js'

interface MaintenanceRow {
  readonly due_ms: number | null
  readonly moved: number | null
  readonly works_from: number
  /** Array literal with the ids of jobs that may have been buried because their workers died. */
  readonly taken_over: string | null
  /** Whether there are jobs whose deadline has passed. */
  readonly has_late: boolean
  /** Number of epochs that have workers. */
  readonly epochs: number
}

interface MaintenanceOptions {
  readonly idleMs: number
  readonly retainDays: number
  readonly schema: string
  readonly events: Events
}

interface ExpiredRow {
  readonly id: string
  readonly kind: string
  readonly queue: string | null
  readonly start_by: Date
}

interface CrashedRow {
  readonly id: string
  readonly kind: string
  readonly queue: string | null
  readonly crashes: number
}

/** Average interval at which an instance runs maintenance while any instance has work. */
const busyMs = 450
/** Number of instances that run maintenance at this interval. In a larger fleet, each instance runs maintenance less often. */
const maxAtBusyRate = 8
/**
 * Idle time after which maintenance runs less often. This time is longer than the interval (at most two seconds) at
 * which workers with jobs notify the other instances.
 */
const busyForMs = 5_000
const maxMoved = 500
const maxArchived = 1_000
/** Maximum number of jobs that one statement expires. The statement blocks claims on the jobs' queues. */
const maxExpired = 100
/** Delay of the next maintenance run if the current run may have missed work. Doubles while runs find locked jobs and move nothing. */
const leftMs = 20
const maxLeftMs = 320
/** Maximum delay of the timer, because Node.js timers are limited to 24 days. Maintenance usually runs much earlier. */
const maxWaitMs = 86_400_000
const rollEveryMs = 3_600_000

/**
 * Queue maintenance. Takes over dead workers' jobs, moves due jobs, and creates and drops partitions. One
 * instance at a time runs maintenance. While any instance has work, each instance with workers runs maintenance about twice per second, but
 * the fleet at most about 20 times per second. Otherwise, maintenance runs less often.
 */
export class Maintenance {
  readonly #store: JobStore
  readonly #idleMs: number
  readonly #retainDays: number
  readonly #schema: string
  readonly #events: Events
  readonly #known: number
  #worksFrom = 0
  #started: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  #busyAt = Number.NEGATIVE_INFINITY
  #busyMs = busyMs
  #rolledAt = Number.NEGATIVE_INFINITY
  #failures = 0
  #leftMs = leftMs
  #isRequested = false
  /** Whether the next run is planned only because of the time since the last run. */
  #isRoutine = false
  #running: Promise<void> | undefined
  #isClosed = false

  constructor(store: JobStore, { idleMs, retainDays, schema, events }: MaintenanceOptions) {
    this.#store = store
    this.#idleMs = idleMs
    this.#retainDays = retainDays
    this.#schema = schema
    this.#events = events
    this.#known = latestVersion(schema)
  }

  /** Whether the schema has been upgraded to a version that this code does not support. */
  get isOutdated(): boolean {
    return this.#worksFrom > this.#known
  }

  /** Throws if the schema has been upgraded to a version that this code does not support. */
  checkVersion(): void {
    if (this.isOutdated) throw new SchemaVersionError(this.#worksFrom, this.#known, this.#schema)
  }

  /**
   * Creates the first history partitions and starts maintenance, when called for the first time. Resolves when the
   * partitions exist. Without these partitions, finished jobs would be stored in the default partition.
   */
  start(): Promise<void> {
    this.#started ??= this.#rollPartitions()
      .catch(() => {})
      .then(() => this.runWithin(0))
    return this.#started
  }

  /** Records that at least one instance has work. Does nothing without workers, because this instance could not run the jobs of others. */
  noteActivity(): void {
    if (!this.#started) return
    const wasIdle = !this.isBusy
    this.#busyAt = performance.now()
    if (wasIdle) this.runWithin(this.#busyMs * Math.random())
  }

  /** Whether this instance runs maintenance. */
  get isStarted(): boolean {
    return this.#started !== undefined
  }

  get isBusy(): boolean {
    return performance.now() - this.#busyAt < busyForMs
  }

  /** Handles the result of a look, which replaces the next routine run. */
  onLook(dueMs: number | null, worksFrom: number): void {
    this.#worksFrom = worksFrom
    if (this.#isClosed || this.isBusy) return
    if (this.#isRoutine && this.#running === undefined) {
      this.#dueAt = Number.POSITIVE_INFINITY
      this.#runRoutinely(this.#idleMs)
    }
    if (dueMs !== null) this.runWithin(dueMs)
    if (this.#mustRoll) this.runWithin(0)
  }

  /** Schedules maintenance to run within `inMs` milliseconds. */
  runWithin(inMs: number): void {
    if (this.#isClosed) return
    const waitMs = Math.max(0, Math.min(inMs, maxWaitMs))
    const at = performance.now() + waitMs
    if (at >= this.#dueAt) return
    this.#dueAt = at
    this.#isRoutine = false
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#running = this.#maintain().finally(() => {
        this.#running = undefined
      })
    }, waitMs).unref()
  }

  /** Schedules maintenance if this instance has workers. */
  runIfStarted(inMs: number): void {
    if (this.#started) this.runWithin(inMs)
  }

  /** Runs maintenance immediately, because another instance has requested maintenance. */
  runNow(): void {
    this.#isRequested = true
    this.runWithin(0)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#started
    await this.#running
  }

  async #maintain(): Promise<void> {
    this.#dueAt = Number.POSITIVE_INFINITY
    const isCalled = this.#isRequested
    this.#isRequested = false
    let dueMs = Number.POSITIVE_INFINITY
    try {
      const [row] = await this.#store.run<MaintenanceRow>('maintain', [maxMoved])
      this.#failures = 0
      this.#worksFrom = row!.works_from
      this.#busyMs = busyMs * Math.max(1, row!.epochs / maxAtBusyRate)
      // If the time has passed, an open transaction has locked a due job. The next run tries to move the job.
      this.#leftMs = row!.moved === 0 && row!.due_ms === 0 ? Math.min(2 * this.#leftMs, maxLeftMs) : leftMs
      if (row!.due_ms !== null) dueMs = row!.due_ms > 0 ? row!.due_ms : this.#leftMs
      // Another instance is running maintenance, and may have started before the request arrived.
      if (row!.moved === null && isCalled) {
        this.#isRequested = true
        dueMs = leftMs
      }
      if ((row!.moved ?? 0) >= maxMoved) dueMs = 0
      if (row!.taken_over !== null) await this.#reportCrashed(row!.taken_over)
      if (row!.has_late) await this.#expire()
      if (this.#mustRoll) await this.#rollPartitions()
    } catch {
      this.#failures++
    }
    if (this.#failures > 0) return this.runWithin(backoffMs(this.#failures, 100, this.#idleMs))
    // Instances without workers have no routine runs, because the instances with workers run maintenance.
    if (this.#started) this.#runRoutinely(this.isBusy ? this.#busyMs : this.#idleMs)
    this.runWithin(dueMs)
  }

  #runRoutinely(inMs: number): void {
    const wasPlanned = this.#dueAt
    this.runWithin(inMs * (0.7 + Math.random() * 0.4))
    this.#isRoutine ||= this.#dueAt !== wasPlanned
  }

  get #mustRoll(): boolean {
    return performance.now() - this.#rolledAt > rollEveryMs
  }

  /** Emits `job.crashed` for each of the jobs that has been buried. */
  async #reportCrashed(ids: string): Promise<void> {
    const emit = this.#events.emitter('job.crashed')
    if (!emit) return
    for (const { id, kind, queue, crashes } of await this.#store.run<CrashedRow>('crashed', [ids]))
      emit({ id: Number(id), kind, queue: queue ?? '', crashes })
  }

  /** Ends jobs whose deadline has passed. The next maintenance run, which follows immediately, runs their follow-ups. */
  async #expire(): Promise<void> {
    const expired = await this.#store.run<ExpiredRow>('expire', [maxExpired])
    const emit = this.#events.emitter('job.expired')
    for (const { id, kind, queue, start_by: startBy } of expired)
      emit?.({ id: Number(id), kind, queue: queue ?? '', startBy })
  }

  async #rollPartitions(): Promise<void> {
    for (let after: string | null = '0'; after !== null; ) {
      const rows: { last_id: string | null }[] = await this.#store.run('archive', [
        this.#retainDays,
        after,
        maxArchived,
      ])
      after = rows[0]!.last_id
    }
    await this.#store.run('roll_partitions', [this.#retainDays])
    // Uses a random time, so that instances roll the partitions at different times.
    this.#rolledAt = performance.now() - rollEveryMs * Math.random() * 0.5
  }
}
