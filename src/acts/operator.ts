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

/** A permit that was revoked because its limit was reset. */
export interface RevokedPermit {
  /** ID of the instance that held the permit. */
  readonly instance: string
  /** Name of the instance. Null if the instance is no longer known. */
  readonly instanceName: string | null
  /** Weight of the permit. */
  readonly weight: number
  /** The grant's fencing token. */
  readonly fence: number
}

/**
 * Runs the SQL statements for acts that have no public method. Requesting a release and ending a session need no
 * privileges on the schema. To end a session, the database role must be the session's own role or a member of
 * `pg_signal_backend`.
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

  /**
   * Asks the instances to release the key. The signal on each holder's handle aborts with a `ReleaseRequestedError`.
   */
  async requestRelease(key: string, holders: readonly string[]): Promise<void> {
    await this.#executor.query(this.#sql.request_release.text, [this.#schema, key, holders])
  }

  /** Expires a lease or a minimum hold, so that guarded writes fail. Returns false if the key was not leased. */
  async expireLease(key: string): Promise<boolean> {
    return (await this.#executor.query(this.#sql.expire_lease.text, [this.#schema, key])).length > 0
  }

  /** Asks an instance to drain within `withinMs`. Returns false if it is unknown or no longer accepts new work. */
  async requestDrain(instance: string, withinMs: number | undefined): Promise<boolean> {
    const values = [this.#schema, instance, withinMs === undefined ? null : Math.ceil(withinMs)]
    return (await this.#executor.query(this.#sql.request_drain.text, values)).length > 0
  }

  /**
   * Revokes all of a limit's permits and grants them to waiters. A handle's signal aborts when its instance receives
   * the notification. An instance with an anchor receives it immediately. An instance without an anchor receives it
   * when it next renews its presence.
   */
  async resetLimit(key: string): Promise<RevokedPermit[]> {
    const rows = await this.#executor.query<{
      instance: string
      instanceName: string | null
      weight: number
      fence: string
    }>(this.#sql.reset_limit.text, [this.#schema, key])
    return rows.map(({ fence, ...same }) => ({ ...same, fence: Number(fence) }))
  }

  /** Resets the rate limit with this key. Returns false if the full burst was already available. */
  async refillRate(key: string): Promise<boolean> {
    return (await this.#executor.query(this.#sql.refill_rate.text, [key])).length > 0
  }

  /** Deletes a delivery, so that its key can run again. Returns false if the delivery is unknown or still running. */
  async forgetDelivery(namespace: string, key: string): Promise<boolean> {
    return (await this.#executor.query(this.#sql.forget_delivery.text, [namespace, key])).length > 0
  }

  /** Ends a session, which releases all its locks. Returns false if the session no longer held the key. */
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

/** Thrown if the database role is not allowed to end a different role's session. */
export class NotYourSessionError extends HoldfastError {
  constructor(pid: number, cause: Error) {
    super(`The database role is not allowed to end session ${pid}`, {
      code: 'PERMISSION_DENIED',
      retryable: false,
      hint: "Use the role that owns the session, or a member of pg_signal_backend. Only a superuser can end a superuser's session.",
      cause,
    })
  }
}

/** Thrown if the session does not end within 5 seconds. */
export class SessionLingersError extends HoldfastError {
  constructor(pid: number) {
    super(`Session ${pid} received the request to end, but did not end within 5 seconds`, {
      code: 'SESSION_LINGERS',
      retryable: true,
      hint: 'The session may be running an operation that cannot be interrupted. Check again later.',
    })
  }
}
