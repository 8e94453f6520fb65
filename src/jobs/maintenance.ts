import { backoffMs } from '../base/index.js'
import { latestVersion, SchemaVersionError } from '../postgres/index.js'
import type { JobStore } from './store.js'

interface MaintenanceRow {
  readonly due_ms: number | null
  readonly moved: number | null
  readonly works_from: number
}

/** How often the dead are looked for while somebody has work, give or take. */
const busyMs = 450
/** For so long after the last sign of work. Whoever has work gives one each second. */
const busyForMs = 5_000
const maxMoved = 500
/** A round comes again so soon, when it is not certain that it has seen all. */
const leftMs = 20
/** No timer waits for more than 24 days, and a round comes sooner anyway. */
const maxWaitMs = 86_400_000
const rollEveryMs = 3_600_000

/**
 * The maintenance, by whichever instance comes first: takes over from the dead, lets run what is due, keeps the days of the
 * history. About twice a second while somebody has work, and rarely otherwise.
 */
export class Maintenance {
  readonly #store: JobStore
  readonly #idleMs: number
  readonly #keepDays: number
  readonly #schema: string
  readonly #known: number
  #worksFrom = 0
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  #busyAt = Number.NEGATIVE_INFINITY
  #rolledAt = Number.NEGATIVE_INFINITY
  #failures = 0
  #isRequested = false
  #running: Promise<void> | undefined
  #isClosed = false

  constructor(store: JobStore, { idleMs, keepDays, schema }: { idleMs: number; keepDays: number; schema: string }) {
    this.#store = store
    this.#idleMs = idleMs
    this.#keepDays = keepDays
    this.#schema = schema
    this.#known = latestVersion(schema)
  }

  /** Throws when the schema was changed meanwhile so that only newer code can work with it. */
  checkVersion(): void {
    if (this.#worksFrom > this.#known) throw new SchemaVersionError(this.#worksFrom, this.#known, this.#schema)
  }

  /** Makes the tables of the first days, so that nothing ends in the rest. */
  async start(): Promise<void> {
    await this.#rollPartitions().catch(() => {})
    this.runWithin(0)
  }

  /** Somebody has work. */
  noteActivity(): void {
    const wasIdle = performance.now() - this.#busyAt > busyForMs
    this.#busyAt = performance.now()
    if (wasIdle) this.runWithin(busyMs * Math.random())
  }

  /** A round, at the latest so much later. */
  runWithin(inMs: number): void {
    if (this.#isClosed) return
    const waitMs = Math.max(0, Math.min(inMs, maxWaitMs))
    const at = performance.now() + waitMs
    if (at >= this.#dueAt) return
    this.#dueAt = at
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#running = this.#maintain().finally(() => {
        this.#running = undefined
      })
    }, waitMs).unref()
  }

  /** A round right now, because something is due. */
  runNow(): void {
    this.#isRequested = true
    this.runWithin(0)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
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
      // What is due and was left: somebody's open transaction has locked it.
      if (row!.due_ms !== null) dueMs = row!.due_ms > 0 ? row!.due_ms : leftMs
      // Whoever else is at it may have begun before.
      if (row!.moved === null && isCalled) {
        this.#isRequested = true
        dueMs = leftMs
      }
      if ((row!.moved ?? 0) >= maxMoved) dueMs = 0
      if (performance.now() - this.#rolledAt > rollEveryMs) await this.#rollPartitions()
    } catch {
      this.#failures++
    }
    if (this.#failures > 0) return this.runWithin(backoffMs(this.#failures, 100, this.#idleMs))
    const isBusy = performance.now() - this.#busyAt < busyForMs
    this.runWithin(Math.min(dueMs, (isBusy ? busyMs : this.#idleMs) * (0.7 + Math.random() * 0.4)))
  }

  async #rollPartitions(): Promise<void> {
    await this.#store.run('roll_partitions', [this.#keepDays])
    // At different times in each instance.
    this.#rolledAt = performance.now() - rollEveryMs * Math.random() * 0.5
  }
}
