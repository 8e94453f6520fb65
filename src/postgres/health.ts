import { memberOf, messageOf, resultWithin } from '../base/index.js'
import type { Database } from './database.js'
import type { Presence } from './presence.js'

/** How an instance is. */
export interface Health {
  /**
   * `up`: it can do all that it is there for. `degraded`: it cannot do all of it, for a while by itself or because it drains.
   * `down`: it cannot work, because the database cannot be reached or the instance is closing.
   */
  readonly status: 'up' | 'degraded' | 'down'
  /** Why it is not up; empty when it is. */
  readonly reasons: readonly HealthReason[]
  readonly instance: string
  /** How long the database took to answer when it was last asked; null when it did not. */
  readonly databaseMs: number | null
  /** When the database was last asked. */
  readonly checkedAt: Date
}

/** One reason why an instance is not `up`. */
export interface HealthReason {
  readonly code: HealthReasonCode
  readonly message: string
}

/** The codes of the reasons why an instance is not `up`. */
export type HealthReasonCode =
  | 'DATABASE_UNREACHABLE'
  | 'POOL_UNANSWERED'
  | 'RECONNECTING'
  | 'DRAINING'
  | 'CLOSING'
  | 'SCHEMA_TOO_NEW'
  | 'WRITES_FAILING'
  | 'WORKER_FAILED'
  | 'WORKER_STALLED'
  | 'SCHEDULES_FAILED'
  | 'CAMPAIGN_FAILED'
  | 'SHARE_FAILED'

/** Why a part of an instance does not work. A schema that is too new is a reason of its own: only a newer version of the program helps. */
export function healthReasonOf(code: HealthReasonCode, what: string, error: unknown): HealthReason {
  const isTooNew = memberOf(error, 'code') === 'SCHEMA_TOO_NEW'
  return { code: isTooNew ? 'SCHEMA_TOO_NEW' : code, message: `${what}: ${messageOf(error)}` }
}

interface Probe {
  readonly at: number
  readonly checkedAt: Date
  readonly databaseMs: number | null
  readonly error: string | null
}

/** However often somebody asks, the database is asked once in this time. */
const probeEveryMs = 3_000
/** Shorter than what orchestrators wait for a probe. */
const probeTimeoutMs = 800

interface HealthOptions {
  readonly database: Database
  readonly presence: Presence
  /** Whether the instance has a session that is always there; without one it is present only when somebody needs it. */
  readonly hasAnchor: boolean
  readonly isDraining: () => boolean
  readonly isClosing: () => boolean
  /** What the parts of the instance know of themselves. */
  readonly reasons: () => Iterable<HealthReason>
}

/**
 * Knows how the instance is: by its presence, by what its parts know of themselves, and by one small question to the database. It
 * never writes: whether writes succeed is known from those that the instance makes anyway.
 */
export class HealthCheck {
  readonly #options: HealthOptions
  #probe: Probe | undefined
  #probing: Promise<Probe> | undefined

  constructor(options: HealthOptions) {
    this.#options = options
  }

  /** How it is now, by an answer of the database that may be three seconds old. */
  async check(): Promise<Health> {
    const { presence, hasAnchor, isDraining, isClosing, reasons: troubles } = this.#options
    const { databaseMs, checkedAt, error } = await this.#latestProbe()
    const reasons: HealthReason[] = []
    const isConnected = hasAnchor && presence.epoch !== undefined
    if (isClosing()) reasons.push({ code: 'CLOSING', message: 'This instance is closing, or closed' })
    else {
      // The session of an instance is answered all the time, so where it lives the server can be reached.
      if (error) reasons.push({ code: isConnected ? 'POOL_UNANSWERED' : 'DATABASE_UNREACHABLE', message: error })
      if (hasAnchor && !isConnected) {
        const message = 'The session of this instance was lost, and is being opened anew'
        reasons.push({ code: 'RECONNECTING', message })
      }
      reasons.push(...troubles())
      if (isDraining()) reasons.push({ code: 'DRAINING', message: 'This instance takes no new work' })
    }
    const isDown = reasons.some(({ code }) => code === 'CLOSING' || code === 'DATABASE_UNREACHABLE')
    const status = isDown ? 'down' : reasons.length > 0 ? 'degraded' : 'up'
    return { status, reasons, instance: presence.instanceId, databaseMs, checkedAt }
  }

  async #latestProbe(): Promise<Probe> {
    if (this.#probe && (performance.now() - this.#probe.at < probeEveryMs || this.#options.isClosing()))
      return this.#probe
    this.#probing ??= this.#runProbe().finally(() => {
      this.#probing = undefined
    })
    this.#probe = await this.#probing
    return this.#probe
  }

  async #runProbe(): Promise<Probe> {
    const at = performance.now()
    const checkedAt = new Date()
    const asking = this.#options.database.query('select 1', [], probeTimeoutMs).then(
      () => null,
      (error: Error) => error.message,
    )
    // A pool whose connections are all taken does not even send the question.
    const late = `The database has not answered in ${probeTimeoutMs} ms`
    const trouble = await resultWithin(probeTimeoutMs, asking).then((failure) =>
      failure === undefined ? late : failure,
    )
    return { at, checkedAt, error: trouble, databaseMs: trouble === null ? performance.now() - at : null }
  }
}
