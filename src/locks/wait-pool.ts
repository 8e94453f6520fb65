import { backoffMs, type Key, pause } from '../base/index.js'
import {
  type Anchor,
  type Session,
  type Statement,
  sqlstate,
  sqlstateOf,
  TooManyConnectionsError,
} from '../postgres/index.js'
import type { LockBatcher, LockMode } from './lock-batcher.js'

export type WaitStatements = Record<'wait' | 'admits_readers' | 'cancel', Statement>

const closeIdleAfterMs = 30_000
const sliceOfExpiry = 0.4

/**
 * Pool of connections that wait for contended names, so that waiting never blocks the anchor. A connection is reserved
 * for a name while this process is waiting for that name, or holds the name on that connection.
 */
export class WaitPool {
  readonly #idle: WaitConnection[] = []
  readonly #waiters: ((connection: WaitConnection | undefined) => void)[] = []
  /** Open connections, and reservations for connections that are being opened. */
  readonly #connections = new Set<object>()
  #closed = false

  constructor(
    readonly anchor: Anchor,
    readonly statements: WaitStatements,
    readonly expiryMs: number,
    readonly maxConnections: number,
    readonly newBatcher: (session: Session) => LockBatcher,
  ) {}

  /** Returns undefined if no connection becomes available within `maxWaitMs`. */
  async acquire(maxWaitMs: number): Promise<WaitConnection | undefined> {
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      connection.stopIdleTimer()
      if (connection.batcher.session.trusted) return connection
    }
    if (this.#connections.size < this.maxConnections) return this.#openConnection(maxWaitMs)
    return new Promise((resolve) => {
      const waiter = (connection: WaitConnection | undefined) => {
        clearTimeout(timer)
        resolve(connection)
      }
      const timer = setTimeout(() => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        resolve(undefined)
      }, maxWaitMs)
      this.#waiters.push(waiter)
    })
  }

  /** Returns a connection to the pool. The connection must neither hold nor await a lock. */
  async release(connection: WaitConnection): Promise<void> {
    if (!connection.batcher.session.trusted) return
    if (this.#closed) return this.#closeConnection(connection)
    const next = this.#waiters.shift()
    if (next) return next(connection)
    this.#idle.push(connection)
    connection.startIdleTimer(closeIdleAfterMs, () => {
      this.#idle.splice(this.#idle.indexOf(connection), 1)
      void this.#closeConnection(connection)
    })
  }

  /** Closes idle connections now, and all other connections when they are returned. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#idle.splice(0).map((connection) => this.#closeConnection(connection)))
  }

  async #openConnection(maxWaitMs: number): Promise<WaitConnection | undefined> {
    const reservation = {}
    this.#connections.add(reservation)
    try {
      const session = await this.anchor.openLockSession()
      // The loss of a session may arrive together with its last response, before the listener below is registered.
      if (!session.trusted) throw session.loss
      const connection = new WaitConnection(this, this.newBatcher(session))
      this.#connections.add(connection)
      session.onLoss(() => this.#remove(connection))
      return connection
    } catch (error) {
      if (!(error instanceof TooManyConnectionsError)) throw error
      // As a fallback, the anchor connection periodically tries to lock the name, which is slower but needs no
      // additional connection.
      await pause(maxWaitMs)
      return undefined
    } finally {
      this.#connections.delete(reservation)
    }
  }

  async #closeConnection(connection: WaitConnection): Promise<void> {
    connection.stopIdleTimer()
    await connection.batcher.session.close()
    this.#remove(connection)
  }

  #remove(connection: WaitConnection): void {
    connection.stopIdleTimer()
    this.#connections.delete(connection)
    const idleAt = this.#idle.indexOf(connection)
    if (idleAt >= 0) this.#idle.splice(idleAt, 1)
    // A new connection can be opened now, so the first waiter retries.
    this.#waiters.shift()?.(undefined)
  }
}

export class WaitConnection {
  #idleTimer: NodeJS.Timeout | undefined
  #sliceEndsAt = 0
  /** Resolves when the server has processed the cancellation of the current wait. Never rejects. */
  #cancelling: Promise<unknown> | undefined

  constructor(
    readonly pool: WaitPool,
    readonly batcher: LockBatcher,
  ) {}

  /**
   * Waits for a key for at most one slice of 40 % of the expiry. A grant therefore arrives while the session is still
   * valid, and no long-running statement holds back vacuum. Returns the fence, or undefined if the slice ends without a
   * grant.
   */
  async wait(key: Key, mode: LockMode, maxWaitMs: number): Promise<number | undefined> {
    const sliceMs = Math.max(1, Math.ceil(Math.min(this.pool.expiryMs * sliceOfExpiry, maxWaitMs)))
    const { statements } = this.pool
    this.#sliceEndsAt = performance.now() + sliceMs
    try {
      const [row] = await this.batcher.session
        .runGrant(statements.wait, [key.key, mode === 'shared', String(sliceMs)])
        .finally(() => this.#cancelled())
      if (row![0] !== null) return Number(row![0])
      // Pauses, because the name is leased and leases have no server-side queue.
      await pause(Math.min(backoffMs(2, 25, 250), maxWaitMs))
      return undefined
    } catch (error) {
      // The failed statement may have acquired the lock. Releasing a lock that is not held is harmless.
      if (this.batcher.session.trusted) await this.batcher.release(key, mode)
      const noGrant = [sqlstate.lockNotAvailable, sqlstate.queryCanceled] as (string | undefined)[]
      if (noGrant.includes(sqlstateOf(error))) return undefined
      throw error
    }
  }

  /** Cancels the current wait, unless its slice ends within 50 ms. */
  cancel(): void {
    if (this.#sliceEndsAt - performance.now() < 50) return
    // One cancellation is enough.
    this.#sliceEndsAt = 0
    const { anchor, statements } = this.pool
    // If the response is lost, the server may execute the cancellation at any later time, so this connection cannot be used any longer.
    this.#cancelling = anchor.session
      ?.run(statements.cancel, [this.batcher.session.backendPid])
      .catch((error) => this.batcher.session.lose(error))
  }

  /**
   * Resolves when no cancellation is in transit. Otherwise, a late cancellation could interrupt this connection's next
   * statement, for example a release.
   */
  async #cancelled(): Promise<void> {
    this.#sliceEndsAt = 0
    await this.#cancelling
    this.#cancelling = undefined
  }

  /** Returns true if no writer in another session is waiting for the key. */
  async admitsReaders(key: Key): Promise<boolean> {
    const [row] = await this.batcher.session.run(this.pool.statements.admits_readers, [key.key])
    return row![0] as unknown as boolean
  }

  startIdleTimer(afterMs: number, onIdle: () => void): void {
    this.#idleTimer = setTimeout(onIdle, afterMs).unref()
  }

  stopIdleTimer(): void {
    clearTimeout(this.#idleTimer)
  }
}
