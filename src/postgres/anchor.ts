import { randomBytes } from 'node:crypto'
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
import { SessionLocksUnavailableError } from './errors.js'
import { type InstanceName, instanceNameDays } from './instance-name.js'
import type { DrainListener, Look, Presence } from './presence.js'
import { proveSessionLocks } from './prove-session-locks.js'
import { Session, type SessionStatements } from './session.js'
import { loadStatements } from './statements.js'

/**
 * The anchor is the session on which an instance holds its uncontended locks. The anchor also proves to the fleet that the instance is
 * alive.
 *
 * PostgreSQL is authoritative for whether an instance is alive: the anchor holds a lock on its session number, and PostgreSQL releases that
 * lock when the session ends, for any reason. The row in `instance` is for display only.
 *
 *     opening ──► present ──► lost ──► reconnecting ──► present (a new epoch, a new number) …
 *        │           │                     │
 *        ▼           ▼                     ▼
 *     refused      closed                closed
 *
 * - **refused**: session locks do not work on this server. `Holdfast.open` throws an error with the reason.
 * - **lost**: everything that is held on the session is reported as lost, exactly once. Then the new epoch ends the old session. If the new
 *   epoch cannot end the old session, the server ends it at its expiry.
 * - **reconnecting**: repeats with backoff until the instance closes. After a restart, crash or failover, the new epoch begins only when
 *   no instance can still rely on an earlier lock. See `#waitForGrace`.
 */
export interface AnchorOptions {
  readonly database: Database
  /** The anchor's connection settings. They may bypass the pooler that the pool uses. */
  readonly connection: Connection
  readonly schema: string
  readonly namespace: string
  readonly name: InstanceName
  readonly retainDays: number
  readonly expiryMs: number
  readonly version: string
  readonly appVersion?: string | undefined
  readonly events: Events
}

const sweepEveryMs = 3_600_000
const resweepMs = 1_000
const pollMs = 50

export class Anchor implements Presence {
  /** Random id of the instance. It is part of the application_name of all of this instance's sessions. */
  readonly instanceId = randomBytes(6).toString('hex')
  readonly #options: AnchorOptions
  readonly #sql
  readonly #closing = new AbortController()
  readonly #lossListeners = new Set<(session: Session, reason: HoldfastError) => void>()
  readonly #looks: Look[] = []
  /** Sessions that hold or await locks in addition to the anchor. */
  readonly #lockSessions = new Set<Session>()
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
        | 'name_is_taken'
        | 'grace_left'
        | 'sweep'
      >('./instance.sql'),
    }
  }

  /** Opens the first session and proves that its locks exclude other sessions. The schema need not exist yet. */
  async prove(): Promise<void> {
    if (this.#options.database.hasOneConnection) throw new SessionLocksUnavailableError('single-session')
    const session = await this.openSession()
    try {
      await proveSessionLocks(session, this.#options.database, this.#sql.proof, this.#options.schema)
    } catch (error) {
      await session.close()
      throw error
    }
    this.#session = session
  }

  /** Begins the first epoch. Requires the schema. */
  async start(): Promise<void> {
    await this.#beginEpoch(this.#session!)
  }

  get name(): string {
    return this.#options.name.current
  }

  async isNameTaken(): Promise<boolean> {
    const { database, namespace, name } = this.#options
    const values = [namespace, this.instanceId, name.wanted]
    const [row] = await database.query<{ taken: boolean }>(this.#sql.instance.name_is_taken.text, values)
    return row!.taken
  }

  /** The current session. Undefined between two epochs. */
  get session(): Session | undefined {
    return this.#session?.trusted ? this.#session : undefined
  }

  /** Same as `session`, because an instance with an anchor is present while its session exists. */
  get epoch(): Session | undefined {
    return this.session
  }

  /**
   * Resolves with the current session, or with the next session as soon as it exists. Rejects when the anchor closes or
   * the signal aborts.
   */
  async whenPresent(signal?: AbortSignal): Promise<Session> {
    for (;;) {
      if (this.#closing.signal.aborted) throw new ClosedError('This instance')
      signal?.throwIfAborted()
      const session = this.session
      if (session) return session
      // The access to `session` has already detected any loss, and the loss has already started the reconnection.
      await orAborted(signal, Promise.resolve(this.#reconnecting))
    }
  }

  /** Calls the listener when a session is lost, synchronously and before the reconnection begins. */
  onLoss(listener: (session: Session, reason: HoldfastError) => void): void {
    this.#lossListeners.add(listener)
  }

  /** Listens on a channel in this epoch and all later epochs. Notifications between two epochs are missed. */
  async listen(channel: string, listener: (payload: string) => void): Promise<void> {
    this.#subscription = { channel, listener }
    const { session } = this
    // If this statement fails because the session is lost, the next epoch sends it again.
    await session?.run(listenStatement(channel)).catch((error) => {
      if (session.trusted) throw error
    })
  }

  onDrainRequest(listener: DrainListener): void {
    this.#onDrainRequest = listener
    void this.checkDrainRequest()
  }

  /** Checks whether an operator has requested draining. Called at the beginning of each epoch and after a notification. */
  async checkDrainRequest(): Promise<void> {
    const rows = await this.session?.run(this.#sql.instance.drain_request, [this.instanceId]).catch(() => undefined)
    const [request] = rows ?? []
    if (request) this.#onDrainRequest(request[0] === null ? undefined : Number(request[0]))
  }

  /** Does nothing, because an instance with an anchor receives revocations as notifications. */
  onRevocation(): void {}

  lookOnHeartbeat(look: Look): boolean {
    this.#looks.push(look)
    return true
  }

  async reportDrain(state: 'draining' | 'drained'): Promise<void> {
    this.#state = state
    // If this statement fails, the beginning of the next epoch records the state.
    await this.session?.run(this.#sql.instance.set_drain_state, [this.instanceId, state]).catch(() => {})
  }

  /** Opens another session for this instance, with the same settings as the anchor's session. */
  async openSession(signal?: AbortSignal): Promise<Session> {
    const { connection, expiryMs } = this.#options
    const applicationName = `holdfast ${this.instanceId}`
    return Session.open({ connection, expiryMs, applicationName, statements: this.#sql.session }, signal)
  }

  /**
   * Opens another session for locks. Calls advance_fence(), because the session may reach a server that has crashed or was promoted before
   * the anchor has noticed the change.
   */
  async openLockSession(): Promise<Session> {
    const session = await this.openSession()
    for (const other of this.#lockSessions) if (!other.trusted) this.#lockSessions.delete(other)
    this.#lockSessions.add(session)
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
    const { namespace, name, expiryMs, version, appVersion } = this.#options
    // The statements are pipelined, so they take one round trip.
    await Promise.all([session.run(this.#sql.instance.advance_fence), session.claimNumber()])
    // The next statement reports that this instance no longer relies on locks of an earlier server, and other instances may then acquire
    // these locks. The other sessions may not have detected the change yet, for example if the earlier server's host is down.
    for (const other of this.#lockSessions) other.loseIfEarlier(session)
    const facts = [
      process.pid,
      version,
      process.versions.node,
      expiryMs,
      JSON.stringify(session.refusedSettings),
      session.direct ? 'none' : 'session pooler',
      this.#state,
      Date.now(),
      name.wanted,
      name.current,
      appVersion ?? null,
    ]
    const [row] = await session.run(this.#sql.instance.record_session, [
      this.instanceId,
      namespace,
      session.number,
      session.backendPid,
      name.host,
      ...facts,
    ])
    name.onRecorded(row![0]!)
    await this.#waitForGrace(session)
    session.onNotification((_, payload) => this.#subscription?.listener(payload))
    if (this.#subscription) await session.run(listenStatement(this.#subscription.channel))
    if (!session.trusted) throw session.loss
    session.onLoss((reason) => this.#onSessionLost(session, reason))
    session.lookOnHeartbeat(this.#looks)
    this.#session = session
    this.#epochs++
    // This check runs after `listen`, so that any later drain request arrives as a notification.
    if (this.#epochs > 1) void this.checkDrainRequest()
    this.#scheduleSweep(session, 0)
  }

  /**
   * A restart, crash or failover frees all locks immediately. An instance that was frozen or cut off at that time does not notice the
   * event, and relies on its locks until its expiry. So the new server grants nothing until all earlier instances have reconnected or
   * expired.
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
    // The promise is assigned before the listeners run, because a listener may call `whenPresent`. The microtask starts the reconnection
    // after all listeners have run.
    const lostAt = performance.now()
    const reconnecting = Promise.resolve()
      .then(() => this.#reconnect(session.backendPid, lostAt))
      .finally(() => {
        // If the new epoch was also lost, another reconnection has already replaced this reconnection.
        if (this.#reconnecting === reconnecting) this.#reconnecting = undefined
      })
    this.#reconnecting = reconnecting
    for (const listener of this.#lossListeners) listener(session, reason)
    this.#options.events.emitter('instance.lost')?.({ reason })
  }

  async #reconnect(retiredPid: number, lostAt: number): Promise<void> {
    const { signal } = this.#closing
    for (let attempt = 0; !signal.aborted; attempt++) {
      // The first attempt is immediate, because usually only the session has ended and the server is still available.
      if (attempt > 0) await pause(backoffMs(attempt, 50, 5_000), signal)
      let session: Session | undefined
      // Closing the instance cancels the attempt, so that closing does not wait for an unresponsive network.
      const forget = whenAborted(signal, () => session?.lose(new ClosedError('This instance')))
      try {
        session = await this.openSession(signal)
        await session.endOldSession(retiredPid)
        await this.#beginEpoch(session)
        this.#options.events.emitter('instance.reconnected')?.({ lostForMs: performance.now() - lostAt })
        return
      } catch (error) {
        // The loop retries after any error. Even if a replica or a pooler responds at this address now, a primary may respond later.
        if (!signal.aborted) this.#options.events.emitter('instance.connect-failed')?.({ error })
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
      // Adds jitter, so that the instances do not sweep at the same time.
      const later = () => this.#scheduleSweep(session, sweepEveryMs * (0.5 + Math.random()))
      session
        .run(this.#sql.instance.sweep, [instanceNameDays(this.#options.retainDays)])
        .then(([row]) => (Number(row![0]) > 0 ? this.#scheduleSweep(session, resweepMs) : later()), later)
    }, inMs).unref()
  }
}

function listenStatement(channel: string) {
  // One statement name is enough, because an instance listens on only one channel.
  return { name: 'listen', text: `listen "${channel.replaceAll('"', '""')}"` }
}
