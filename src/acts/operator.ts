import { HoldfastError } from '../base/index.js'
import { type Executor, loadStatements, PermissionError, type Statement } from '../postgres/index.js'

type StatementName =
  | 'request_release'
  | 'request_drain'
  | 'reset_limit'
  | 'refill_rate'
  | 'forget_delivery'
  | 'end_session'
  | 'expire_lease'

/** A permit that was taken from its holder. */
export interface RevokedPermit {
  /** Instance that held the permit. */
  readonly instance: string
  /** Share of the limit that the permit used. */
  readonly weight: number
  /** Fence of the grant. */
  readonly fence: number
}

/**
 * What an operator does from outside to what instances hold. To ask a holder, and to end its session, needs no rights on the
 * schema; ending a session needs the role of that session, or `pg_signal_backend`; expiring a lease, the right to update it.
 */
export class Operator {
  readonly #executor: Executor
  readonly #schema: string
  readonly #sql: Record<StatementName, Statement>

  constructor(executor: Executor, schema = 'holdfast') {
    this.#executor = executor
    this.#schema = schema
    this.#sql = loadStatements(new URL('./operate.sql', import.meta.url), schema)
  }

  /** Asks whoever holds the key to let go: the signal of each handle aborts with a `ReleaseRequestedError`. */
  async requestRelease(key: string): Promise<void> {
    await this.#executor.query(this.#sql.request_release.text, [this.#schema, key])
  }

  /**
   * Takes the key from whoever has it by lease: its handle is lost as soon as it hears of it, its guarded writes are
   * refused at once. Also ends a hold. False when nobody had it.
   */
  async expireLease(key: string): Promise<boolean> {
    return (await this.#executor.query(this.#sql.expire_lease.text, [this.#schema, key])).length > 0
  }

  /**
   * Asks an instance to drain; what runs may take `withinMs` to come to its end. False when it has been asked before, or
   * there is none.
   */
  async requestDrain(instance: string, withinMs: number | undefined): Promise<boolean> {
    const values = [this.#schema, instance, withinMs === undefined ? null : Math.ceil(withinMs)]
    return (await this.#executor.query(this.#sql.request_drain.text, values)).length > 0
  }

  /**
   * Takes all permits of the entity with this key from whoever holds them, and hands them on to whoever waits. The signal of each
   * handle aborts as soon as its instance hears of it: at once, or without an anchor at the next renewal of its presence.
   */
  async resetLimit(key: string): Promise<RevokedPermit[]> {
    const rows = await this.#executor.query<{ instance: string; weight: number; fence: string }>(
      this.#sql.reset_limit.text,
      [this.#schema, key],
    )
    return rows.map(({ fence, ...same }) => ({ ...same, fence: Number(fence) }))
  }

  /** Forgets what was spent of the rate with this key. False when nothing was. */
  async refillRate(key: string): Promise<boolean> {
    return (await this.#executor.query(this.#sql.refill_rate.text, [key])).length > 0
  }

  /** Lets a key of deliveries be run again. False when there is nothing to forget, or it is being run. */
  async forgetDelivery(namespace: string, key: string): Promise<boolean> {
    return (await this.#executor.query(this.#sql.forget_delivery.text, [namespace, key])).length > 0
  }

  /** Ends a session that holds the key, and with it all that it holds. False when it held the key no more. */
  async endSession(pid: number, key: string): Promise<boolean> {
    try {
      const [row] = await this.#executor.query<{ ended: boolean }>(this.#sql.end_session.text, [pid, key])
      if (row && !row.ended) throw new SessionLingersError(pid)
      return row !== undefined
    } catch (error) {
      throw error instanceof PermissionError ? new NotYourSessionError(pid, error) : error
    }
  }
}

/** The role may not end the sessions of that other role. */
export class NotYourSessionError extends HoldfastError {
  constructor(pid: number, cause: Error) {
    super(`This role may not end session ${pid}`, {
      code: 'PERMISSION_DENIED',
      retryable: false,
      hint: 'Use the role of that session, or one with pg_signal_backend; a superuser’s session takes a superuser.',
      cause,
    })
  }
}

/** The session was told to end, and has not ended yet. */
export class SessionLingersError extends HoldfastError {
  constructor(pid: number) {
    super(`Session ${pid} was told to end, but has not ended within 5 s`, {
      code: 'SESSION_LINGERS',
      retryable: true,
      hint: 'It may be in the middle of something that cannot be interrupted. Look again in a while.',
    })
  }
}
