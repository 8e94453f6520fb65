import { atMost, memberOf, messageOf } from '../base/index.js'
import type { Database } from './port.js'
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
  readonly code: HealthTrouble
  readonly message: string
}

/** The codes of the reasons why an instance is not `up`. */
export type HealthTrouble =
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
export function troubleOf(code: HealthTrouble, what: string, error: unknown): HealthReason {
  const isTooNew = memberOf(error, 'code') === 'SCHEMA_TOO_NEW'
  return { code: isTooNew ? 'SCHEMA_TOO_NEW' : code, message: `${what}: ${messageOf(error)}` }
}

interface Look {
  readonly at: number
  readonly checkedAt: Date
  readonly databaseMs: number | null
  readonly trouble: string | null
}

/** However often somebody asks, the database is asked once in this time. */
const askEveryMs = 3_000
/** Shorter than what orchestrators wait for a probe. */
const probeWithinMs = 800

interface HealthOptions {
  readonly database: Database
  readonly presence: Presence
  /** Whether the instance has a session that is always there; without one it is present only when somebody needs it. */
  readonly hasAnchor: boolean
  readonly isDraining: () => boolean
  readonly isClosing: () => boolean
  /** What the parts of the instance know of themselves. */
  readonly troubles: () => Iterable<HealthReason>
}

/**
 * Knows how the instance is: by its presence, by what its parts know of themselves, and by one small question to the database. It
 * never writes: whether writes succeed is known from those that the instance makes anyway.
 */
export class HealthCheck {
  readonly #options: HealthOptions
  #look: Look | undefined
  #looking: Promise<Look> | undefined

  constructor(options: HealthOptions) {
    this.#options = options
  }

  /** How it is now, by an answer of the database that may be three seconds old. */
  async look(): Promise<Health> {
    const { presence, hasAnchor, isDraining, isClosing, troubles } = this.#options
    const { databaseMs, checkedAt, trouble } = await this.#latest()
    const reasons: HealthReason[] = []
    const isConnected = hasAnchor && presence.life !== undefined
    if (isClosing()) reasons.push({ code: 'CLOSING', message: 'This instance is closing, or closed' })
    else {
      // The session of an instance is answered all the time, so where it lives the server can be reached.
      if (trouble) reasons.push({ code: isConnected ? 'POOL_UNANSWERED' : 'DATABASE_UNREACHABLE', message: trouble })
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

  async #latest(): Promise<Look> {
    if (this.#look && (performance.now() - this.#look.at < askEveryMs || this.#options.isClosing())) return this.#look
    this.#looking ??= this.#ask().finally(() => {
      this.#looking = undefined
    })
    this.#look = await this.#looking
    return this.#look
  }

  async #ask(): Promise<Look> {
    const at = performance.now()
    const checkedAt = new Date()
    const asking = this.#options.database.query('select 1', [], probeWithinMs).then(
      () => null,
      (error: Error) => error.message,
    )
    // A pool whose connections are all taken does not even send the question.
    const late = `The database has not answered in ${probeWithinMs} ms`
    const trouble = await atMost(probeWithinMs, asking).then((said) => (said === undefined ? late : said))
    return { at, checkedAt, trouble, databaseMs: trouble === null ? performance.now() - at : null }
  }
}
