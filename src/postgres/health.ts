import { memberOf, messageOf, resultWithin } from '../base/index.js'
import type { Database } from './database.js'
import type { InstanceName } from './instance-name.js'
import type { Presence } from './presence.js'

/** An instance's health. */
export interface Health {
  /**
   * `up`: everything works. `degraded`: a part of the instance does not work, or the instance is draining. `down`: the database cannot be
   * reached, or the instance is closing.
   */
  readonly status: 'up' | 'degraded' | 'down'
  /** The reasons why the status is not `up`. */
  readonly reasons: readonly HealthReason[]
  /** The instance's id. */
  readonly instance: string
  /** The instance's name. */
  readonly name: string
  /** Response time of the last query. Null if there was no response. */
  readonly databaseMs: number | null
  /** Time of the last query. */
  readonly checkedAt: Date
}

/** A reason that an instance is not `up`. */
export interface HealthReason {
  readonly code: HealthReasonCode
  readonly message: string
}

/** Code for a reason that an instance is not `up`. */
export type HealthReasonCode =
  | 'DATABASE_UNREACHABLE'
  | 'POOL_UNANSWERED'
  | 'RECONNECTING'
  | 'NAME_TAKEN'
  | 'DRAINING'
  | 'CLOSING'
  | 'SCHEMA_TOO_NEW'
  | 'WRITES_FAILING'
  | 'WORKER_FAILED'
  | 'WORKER_STALLED'
  | 'SCHEDULES_FAILED'
  | 'CAMPAIGN_FAILED'
  | 'SHARE_FAILED'

/**
 * Converts an error to a reason. A schema that is too new has its own code, because only a newer version of the program fixes this problem.
 */
export function healthReasonOf(code: HealthReasonCode, what: string, error: unknown): HealthReason {
  const isTooNew = memberOf(error, 'code') === 'SCHEMA_TOO_NEW'
  return { code: isTooNew ? 'SCHEMA_TOO_NEW' : code, message: `${what}: ${messageOf(error)}` }
}

interface Probe {
  readonly at: number
  readonly checkedAt: Date
  readonly databaseMs: number | null
  readonly error: string | null
  /** Whether another live instance already uses the name that this instance was opened with. */
  readonly isNameTaken: boolean
}

const probeEveryMs = 3_000
/** Timeout of the health query, which is shorter than the probe timeouts of orchestrators. */
const probeTimeoutMs = 800

interface HealthOptions {
  readonly database: Database
  readonly presence: Presence
  /** Whether the instance has an anchor and should always be present. Without an anchor, an instance is present only when necessary. */
  readonly hasAnchor: boolean
  readonly name: InstanceName
  readonly isDraining: () => boolean
  readonly isClosing: () => boolean
  /** Problems in the instance's individual parts. */
  readonly reasons: () => Iterable<HealthReason>
}

/**
 * Determines an instance's health from its presence, the problems in its parts, and one small query. The health check
 * never writes. Instead, `WriteMonitor` observes the results of the writes that the instance sends during its normal
 * operation.
 */
export class HealthCheck {
  readonly #options: HealthOptions
  #probe: Probe | undefined
  #probing: Promise<Probe> | undefined

  constructor(options: HealthOptions) {
    this.#options = options
  }

  /** Returns the current health. The query's result may be up to 3 s old. */
  async check(): Promise<Health> {
    const { presence, hasAnchor, name, isDraining, isClosing, reasons: troubles } = this.#options
    const { databaseMs, checkedAt, error, isNameTaken } = await this.#latestProbe()
    const reasons: HealthReason[] = []
    const isConnected = hasAnchor && presence.epoch !== undefined
    if (isClosing()) reasons.push({ code: 'CLOSING', message: 'This instance is closing or has closed' })
    else {
      // The anchor receives responses constantly. So if the anchor is present, only the pool has a problem.
      if (error) reasons.push({ code: isConnected ? 'POOL_UNANSWERED' : 'DATABASE_UNREACHABLE', message: error })
      if (hasAnchor && !isConnected) {
        const message = 'This instance has lost its session and is reconnecting'
        reasons.push({ code: 'RECONNECTING', message })
      }
      reasons.push(...troubles())
      if (isNameTaken) {
        const message = `Another live instance already uses the name "${name.wanted}", so this instance uses the name "${name.current}"`
        reasons.push({ code: 'NAME_TAKEN', message })
      }
      if (isDraining())
        reasons.push({ code: 'DRAINING', message: 'This instance is draining and is not starting new work' })
    }
    const isDown = reasons.some(({ code }) => code === 'CLOSING' || code === 'DATABASE_UNREACHABLE')
    const status = isDown ? 'down' : reasons.length > 0 ? 'degraded' : 'up'
    return { status, reasons, instance: presence.instanceId, name: presence.name, databaseMs, checkedAt }
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

  async #isNameTaken(): Promise<boolean> {
    const { name, presence } = this.#options
    if (!name.isReplaced) return false
    const reading = presence.isNameTaken().catch(() => false)
    return (await resultWithin(probeTimeoutMs, reading)) ?? false
  }

  async #runProbe(): Promise<Probe> {
    const at = performance.now()
    const checkedAt = new Date()
    const asking = this.#options.database.query('select 1', [], probeTimeoutMs).then(
      () => null,
      (error: Error) => error.message,
    )
    // This timeout also limits the wait for a free connection, because an exhausted pool does not send the query.
    const late = `The database did not respond within ${probeTimeoutMs} ms`
    const trouble = await resultWithin(probeTimeoutMs, asking).then((failure) =>
      failure === undefined ? late : failure,
    )
    const databaseMs = trouble === null ? performance.now() - at : null
    return { at, checkedAt, error: trouble, databaseMs, isNameTaken: trouble === null && (await this.#isNameTaken()) }
  }
}
