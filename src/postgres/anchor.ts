import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import {
  backoffMs,
  ClosedError,
  type Events,
  type HoldfastError,
  orAborted,
  pause,
  whenAborted,
} from '../base/index.js'
import type { Connection, Database } from './database.js'
import type { DrainListener, Presence } from './presence.js'
import { proveSessionLocks } from './prove-session-locks.js'
import { Session, type SessionStatements } from './session.js'
import { loadStatements } from './statements.js'

/**
 * The anchor: the one session on which an instance holds its uncontended locks, and by which it is present.
 *
 * PostgreSQL is the authority on whether an instance lives: the anchor holds a lock on its session's number, and when
 * the session ends, however it ends, the number is free. The `instance` row only tells people about it.
 *
 *     opening ──► living ──► lost ──► reconnecting ──► living (a new life, a new number) …
 *        │           │                     │
 *        ▼           ▼                     ▼
 *     refused      closed                closed
 *
 * - **refused**: session locks cannot be trusted here; the first opening throws why.
 * - **lost**: everything held on the session is declared lost, once, before anything else happens. What the old
 *   session may still hold on the server is ended by the new life, or else by the server at its expiry.
 * - **after a restart, crash or failover**, a life begins only when nobody can believe in a lock of before any more; see
 *   `#grace`.
 * - **reconnecting**: with growing, jittered pauses, for as long as the instance is open. Only trust in the session is
 *   ever lost; the instance itself goes on.
 */
export interface AnchorOptions {
  readonly database: Database
  /** How the anchor connects, where that is not how the pool does: past a pooler. */
  readonly connection: Connection
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  readonly version: string
  readonly events: Events
}

const sweepEveryMs = 3_600_000
const resweepMs = 1_000
const pollMs = 50

export class Anchor implements Presence {
  /** Random; part of the application_name of every session of this instance. */
  readonly instanceId = randomBytes(6).toString('hex')
  readonly #options: AnchorOptions
  readonly #sql
  readonly #closing = new AbortController()
  readonly #lossListeners = new Set<(session: Session, reason: HoldfastError) => void>()
  #subscription: { readonly channel: string; readonly listener: (payload: string) => void } | undefined
  #session: Session | undefined
  #reconnecting: Promise<void> | undefined
  #sweepTimer: NodeJS.Timeout | undefined
  #epochs = 0
  #state: 'open' | 'draining' | 'drained' = 'open'
  #onDrainRequest: DrainListener = () => {}

  constructor(options: AnchorOptions) {
    this.#options = options
    const load = <Name extends string>(file: string) =>
      loadStatements<Name>(new URL(file, import.meta.url), options.schema)
    this.#sql = {
      session: load<keyof SessionStatements>('./session.sql'),
      proof: load<'lock' | 'unlock' | 'try_lock' | 'server_identity'>('./prove-session-locks.sql'),
      instance: load<
        | 'record_session'
        | 'delete_instance'
        | 'drain_request'
        | 'set_drain_state'
        | 'advance_fence'
        | 'grace_left'
        | 'sweep'
      >('./instance.sql'),
    }
  }

  /** Opens the first session and proves that locks on it hold; the schema need not be there yet. */
  async prove(): Promise<void> {
    const session = await this.openSession()
    try {
      await proveSessionLocks(session, this.#options.database, this.#sql.proof, this.#options.schema)
    } catch (error) {
      await session.close()
      throw error
    }
    this.#session = session
  }

  /** Begins the first life; the schema must be there now. */
  async start(): Promise<void> {
    await this.#beginEpoch(this.#session!)
  }

  /** The living session, or undefined between two lives. */
  get session(): Session | undefined {
    return this.#session?.trusted ? this.#session : undefined
  }

  /** The same: by its session an instance with an anchor is present. */
  get epoch(): Session | undefined {
    return this.session
  }

  /** The living session, once there is one. Rejects when the anchor closes or the signal aborts. */
  async whenPresent(signal?: AbortSignal): Promise<Session> {
    for (;;) {
      if (this.#closing.signal.aborted) throw new ClosedError('This instance')
      signal?.throwIfAborted()
      const session = this.session
      if (session) return session
      // A session that lost trust a moment ago has announced it and set the reconnection going.
      await orAborted(signal, Promise.resolve(this.#reconnecting))
    }
  }

  /** Calls back, at once and before the reconnection begins, when the session of a life is lost. */
  onLoss(listener: (session: Session, reason: HoldfastError) => void): void {
    this.#lossListeners.add(listener)
  }

  /** Listens on its one channel, in this life and all later ones. What is sent between two lives is missed. */
  async listen(channel: string, listener: (payload: string) => void): Promise<void> {
    this.#subscription = { channel, listener }
    const { session } = this
    // The next life listens by itself.
    await session?.run(listenStatement(channel)).catch((error) => {
      if (session.trusted) throw error
    })
  }

  onDrainRequest(listener: DrainListener): void {
    this.#onDrainRequest = listener
    void this.checkDrainRequest()
  }

  /** At the beginning of each life, for what was asked between two lives; and when we are told to look. */
  async checkDrainRequest(): Promise<void> {
    const rows = await this.session?.run(this.#sql.instance.drain_request, [this.instanceId]).catch(() => undefined)
    const [request] = rows ?? []
    if (request) this.#onDrainRequest(request[0] === null ? undefined : Number(request[0]))
  }

  /** Whoever takes something notifies, and the anchor listens. */
  onRevocation(): void {}

  async reportDrain(state: 'draining' | 'drained'): Promise<void> {
    this.#state = state
    // If it fails, the next life tells.
    await this.session?.run(this.#sql.instance.set_drain_state, [this.instanceId, state]).catch(() => {})
  }

  /** Another session of this instance, under the same rules as the anchor's. */
  async openSession(signal?: AbortSignal): Promise<Session> {
    const { connection, expiryMs } = this.#options
    const applicationName = `holdfast ${this.instanceId}`
    return Session.open({ connection, expiryMs, applicationName, statements: this.#sql.session }, signal)
  }

  /**
   * A session beside the anchor's, for locks. It moves the fences ahead by itself: the server that it reaches may have
   * crashed, or taken the place of another, without the anchor having heard of it yet.
   */
  async openLockSession(): Promise<Session> {
    const session = await this.openSession()
    try {
      await session.run(this.#sql.instance.advance_fence)
      await session.claimNumber()
      await this.#waitForGrace(session)
      return session
    } catch (error) {
      await session.close()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    clearTimeout(this.#sweepTimer)
    await this.#reconnecting?.catch(() => {})
    const session = this.session
    if (!session) return
    await session.run(this.#sql.instance.delete_instance, [this.instanceId]).catch(() => {})
    await session.close()
  }

  async #beginEpoch(session: Session): Promise<void> {
    const { namespace, expiryMs, version } = this.#options
    await session.run(this.#sql.instance.advance_fence)
    await session.claimNumber()
    const facts = [
      process.pid,
      version,
      process.versions.node,
      expiryMs,
      JSON.stringify(session.refusedSettings),
      session.direct ? 'none' : 'session pooler',
      this.#state,
      Date.now(),
    ]
    await session.run(this.#sql.instance.record_session, [
      this.instanceId,
      namespace,
      session.number,
      session.backendPid,
      hostname(),
      ...facts,
    ])
    await this.#waitForGrace(session)
    session.onNotification((_, payload) => this.#subscription?.listener(payload))
    if (this.#subscription) await session.run(listenStatement(this.#subscription.channel))
    if (!session.trusted) throw session.loss
    session.onLoss((reason) => this.#onSessionLost(session, reason))
    this.#session = session
    this.#epochs++
    // After it listens: whoever asks from now on is heard.
    if (this.#epochs > 1) void this.checkDrainRequest()
    this.#scheduleSweep(session, 0)
  }

  /**
   * When the server restarted, crashed or failed over, all locks were free at once; but an instance that was frozen or
   * cut off just then has not heard of it, and may believe in its locks until its expiry. So on the new server nobody is
   * granted anything until everybody from before has come back, or has had the time to know better.
   */
  async #waitForGrace(session: Session): Promise<void> {
    for (;;) {
      const [row] = await session.run(this.#sql.instance.grace_left)
      const leftMs = Number(row![0])
      if (leftMs <= 0) return
      if (this.#closing.signal.aborted) throw new ClosedError('This instance')
      await pause(Math.min(leftMs, pollMs), this.#closing.signal)
    }
  }

  #onSessionLost(session: Session, reason: HoldfastError): void {
    // Set before anybody is told, for whoever is told may ask for the next life at once; begun after all are told.
    const lostAt = performance.now()
    const reconnecting = Promise.resolve()
      .then(() => this.#reconnect(session.backendPid, lostAt))
      .finally(() => {
        // Unless the new life is over already, and another reconnection under way.
        if (this.#reconnecting === reconnecting) this.#reconnecting = undefined
      })
    this.#reconnecting = reconnecting
    for (const listener of this.#lossListeners) listener(session, reason)
    this.#options.events.emitter('instance.lost')?.({ reason })
  }

  async #reconnect(retiredPid: number, lostAt: number): Promise<void> {
    const { signal } = this.#closing
    for (let attempt = 0; !signal.aborted; attempt++) {
      // The first try is immediate: most often a single session was ended and the server is there.
      if (attempt > 0) await pause(backoffMs(attempt, 50, 5_000), signal)
      let session: Session | undefined
      // Nobody needs a life that has not begun: closing does not wait for a silent network.
      const forget = whenAborted(signal, () => session?.lose(new ClosedError('This instance')))
      try {
        session = await this.openSession(signal)
        await session.endOldSession(retiredPid)
        await this.#beginEpoch(session)
        this.#options.events.emitter('instance.reconnected')?.({ lostForMs: performance.now() - lostAt })
        return
      } catch {
        // Whatever took the server's place, even a replica or a pooler, may go again.
        await session?.close()
      } finally {
        forget()
      }
    }
  }

  #scheduleSweep(session: Session, inMs: number): void {
    if (this.#session !== session || this.#closing.signal.aborted) return
    clearTimeout(this.#sweepTimer)
    this.#sweepTimer = setTimeout(() => {
      if (this.#session !== session) return
      // At different times in each instance, so that a fleet does not sweep together; and again soon when there is more.
      const later = () => this.#scheduleSweep(session, sweepEveryMs * (0.5 + Math.random()))
      session
        .run(this.#sql.instance.sweep)
        .then(([row]) => (Number(row![0]) > 0 ? this.#scheduleSweep(session, resweepMs) : later()), later)
    }, inMs).unref()
  }
}

function listenStatement(channel: string) {
  // A name of its own would be cut where it is longer than 63 bytes. An instance listens on one channel.
  return { name: 'listen', text: `listen "${channel.replaceAll('"', '""')}"` }
}
