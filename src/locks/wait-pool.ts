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
 * The few connections on which an instance waits for contended names, so that waiting never blocks the anchor.
 *
 * A place is taken for a name when its first waiter must wait, and kept while somebody of this process waits for the
 * name or holds it there; a lock cannot move from one session to another. Idle places are closed after half a
 * minute. When all are taken, further names are tried for on the anchor from time to time; see the arbiter.
 */
export class WaitPool {
  readonly #idle: WaitConnection[] = []
  readonly #waiters: ((place: WaitConnection | undefined) => void)[] = []
  /** Whoever takes up one of the `most` connections, or is about to. */
  readonly #connections = new Set<object>()
  #closed = false

  constructor(
    readonly anchor: Anchor,
    readonly statements: WaitStatements,
    readonly expiryMs: number,
    readonly maxConnections: number,
    readonly newBatcher: (session: Session) => LockBatcher,
  ) {}

  /** A place, or undefined when none is to be had within `patienceMs`. */
  async acquire(maxWaitMs: number): Promise<WaitConnection | undefined> {
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      connection.stopIdleTimer()
      if (connection.batcher.session.trusted) return connection
    }
    if (this.#connections.size < this.maxConnections) return this.#openConnection(maxWaitMs)
    return new Promise((resolve) => {
      const waiter = (place: WaitConnection | undefined) => {
        clearTimeout(timer)
        resolve(place)
      }
      const timer = setTimeout(() => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        resolve(undefined)
      }, maxWaitMs)
      this.#waiters.push(waiter)
    })
  }

  /** Takes a place back on which nothing is held or waited for. */
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

  /** Closes the idle places, and from now on every place that is given back. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#idle.splice(0).map((place) => this.#closeConnection(place)))
  }

  async #openConnection(maxWaitMs: number): Promise<WaitConnection | undefined> {
    const reservation = {}
    this.#connections.add(reservation)
    try {
      const session = await this.anchor.openLockSession()
      const connection = new WaitConnection(this, this.newBatcher(session))
      this.#connections.add(connection)
      session.onLoss(() => this.#remove(connection))
      return connection
    } catch (error) {
      if (!(error instanceof TooManyConnectionsError)) throw error
      // Trying from time to time on the anchor is slower, but asks nothing more of the server.
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
    // There is room for a new place: whoever stands first in the queue asks again.
    this.#waiters.shift()?.(undefined)
  }
}

/** One parked connection. */
export class WaitConnection {
  readonly batcher: LockBatcher
  readonly #pool: WaitPool
  #idleTimer: NodeJS.Timeout | undefined
  #sliceEndsAt = 0

  constructor(pool: WaitPool, turns: LockBatcher) {
    this.#pool = pool
    this.batcher = turns
  }

  /**
   * Waits for a key for at most one slice: well within the expiry, so that a grant always arrives with trust left, and
   * so that a blocked statement, which holds vacuum back, is never old. Answers with the fence, or undefined when
   * the slice is over. A name that is leased is tried for again in a while.
   */
  async wait(key: Key, mode: LockMode, maxWaitMs: number): Promise<number | undefined> {
    const sliceMs = Math.max(1, Math.ceil(Math.min(this.#pool.expiryMs * sliceOfExpiry, maxWaitMs)))
    const { statements } = this.#pool
    this.#sliceEndsAt = performance.now() + sliceMs
    try {
      const [row] = await this.batcher.session.runGrant(statements.wait, [key.key, mode === 'shared', String(sliceMs)])
      if (row![0] !== null) return Number(row![0])
      // Somebody has the name by lease, and a lease has no queue.
      await pause(Math.min(backoffMs(2, 25, 250), maxWaitMs))
      return undefined
    } catch (error) {
      // Also for errors that should leave nothing behind: releasing what is not held is harmless.
      if (this.batcher.session.trusted) await this.batcher.release(key, mode)
      const over = [sqlstate.lockNotAvailable, sqlstate.queryCanceled] as (string | undefined)[]
      if (over.includes(sqlstateOf(error))) return undefined
      throw error
    } finally {
      this.#sliceEndsAt = 0
    }
  }

  /** Ends the slice that is under way, unless it ends soon by itself. */
  cancel(): void {
    if (this.#sliceEndsAt - performance.now() < 50) return
    // Once: a second one would strike what comes after the wait.
    this.#sliceEndsAt = 0
    const { anchor, statements } = this.#pool
    anchor.session?.run(statements.cancel, [this.batcher.session.backendPid]).catch(() => {})
  }

  /** Whether no writer waits for the key elsewhere. */
  async admitsReaders(key: Key): Promise<boolean> {
    const [row] = await this.batcher.session.run(this.#pool.statements.admits_readers, [key.key])
    return row![0] as unknown as boolean
  }

  startIdleTimer(afterMs: number, onIdle: () => void): void {
    this.#idleTimer = setTimeout(onIdle, afterMs).unref()
  }

  stopIdleTimer(): void {
    clearTimeout(this.#idleTimer)
  }
}
