import type pg from 'pg'
import { ClosedError, formatDuration, type HoldfastError, TrustDeadline, whenAborted } from '../base/index.js'
import type { Connection } from './database.js'
import { DatabaseUnreachableError, SessionLocksUnavailableError, UnsupportedServerError } from './errors.js'
import { PgHostsClient } from './hosts.js'
import { isPglite } from './pglite.js'
import { refuseTransactionPooler } from './pooler.js'
import { type Epoch, type Look, trustedFor } from './presence.js'
import { sqlstate, sqlstateOf, translate } from './sqlstate.js'
import type { Statement } from './statements.js'

/**
 * A dedicated connection. The server enforces the expiry of its session locks.
 *
 * The server ends the session after `expiryMs` of idle time (`idle_session_timeout`), and detects a closed socket within 0.5 s even during
 * a statement. The client relies on the session for a shorter time (`TrustDeadline`). The order of events is as follows. The client sends a
 * statement. The server responds and becomes idle. The client gives up the session. The server ends the session and grants its locks to
 * others. If the connection breaks during a statement, `transaction_timeout` (17 and later), keepalives and `tcp_user_timeout` limit the
 * statement.
 *
 * States: open → lost (deadline, dead socket, ended by the server, foreign backend) or closed (by us). Both are final.
 */
export interface SessionOptions {
  readonly connection: Connection
  readonly applicationName: string
  readonly expiryMs: number
  readonly statements: SessionStatements
}

export type SessionStatements = Record<
  | 'identify'
  | 'pin_path'
  | 'no_jit'
  | 'apply_settings'
  | 'read_settings'
  | 'claim_number'
  | 'heartbeat'
  | 'heartbeat_with_generation'
  | 'end_old_session',
  Statement
>

/** A requested setting that did not take effect on the server. */
export interface RefusedSetting {
  readonly wanted: string
  readonly got: string | null
}

interface Identity {
  backend_pid: number
  version: string
  version_number: number
  in_recovery: boolean
  locks_each: number
  connections: number
  prepared: number
}

const minServerVersion = 140_000
/**
 * Time for which heartbeats contain no looks after a look has failed, for example because an older version of Holdfast
 * has installed the functions.
 */
const withoutLooksMs = 60_000

/** SQLSTATEs of a heartbeat that fails because the schema no longer exists. */
const schemaGone: readonly (string | undefined)[] = [
  sqlstate.undefinedSchema,
  sqlstate.undefinedTable,
  sqlstate.undefinedFunction,
]

const earlierMessage = 'The server has been restarted or replaced since this session began'
const restoredMessage = 'The Holdfast tables were replaced during this session, for example by a restored backup'

export class Session extends TrustDeadline implements Epoch {
  readonly backendPid: number
  /** Whether the statements run on the backend that was reported when the connection was opened. If false, there is a pooler. */
  readonly direct: boolean
  readonly serverVersion: number
  /** Capacity of the server's lock table, for all sessions. */
  readonly lockBudget: number
  /** Session number on which the session holds a lock. 0 until `claimNumber` is called. */
  number = 0
  refusedSettings: Record<string, RefusedSetting> = {}

  readonly #client: pg.Client
  readonly #options: SessionOptions
  readonly #trustMs: number
  readonly #heartbeatEveryMs: number
  #looks: readonly Look[] = []
  /** Heartbeats before this time contain no looks. */
  #looksFrom = 0
  #lastSentAt: number
  #lastHeartbeatAt: number
  #isHeartbeatInFlight = false
  /** The oid of the `fence` sequence. 0 until `claimNumber`. */
  #fenceSequence = '0'
  /** Start of the server generation, as text from the server. Undefined until `claimNumber`. */
  #generationBegan: string | null | undefined
  #inFlight = 0
  #heartbeatTimer: NodeJS.Timeout | undefined

  /** Opens a session. The signal cancels the attempt. */
  static async open(options: SessionOptions, signal?: AbortSignal): Promise<Session> {
    const client = new PgHostsClient({
      ...options.connection,
      application_name: options.applicationName,
      keepAlive: true,
      connectionTimeoutMillis: options.expiryMs,
      pipeline: true,
    } as pg.ClientConfig)
    // Until the session adds its own listener, a connection error only fails the statement in flight.
    client.on('error', () => {})
    // Until the first heartbeat, no other timeout ends an unresponsive connection.
    const cut = setTimeout(() => client.connection.stream.destroy(), options.expiryMs)
    const forget = whenAborted(signal, () => client.connection.stream.destroy())
    try {
      await client.connect()
      const sentAt = performance.now()
      const identity = (await client.query<Identity>(options.statements.identify.text)).rows[0]!
      checkServer(identity)
      const direct = (client as unknown as { processID: number }).processID === identity.backend_pid
      // This check runs before any setting is applied, because a transaction pooler would pass the settings on to other clients.
      if (!direct) await refuseTransactionPooler(client, options.connection, identity.backend_pid)
      const session = new Session(client, options, identity, direct, sentAt)
      await session.#applySettings()
      return session
    } catch (error) {
      client.connection.stream.destroy()
      throw translate(error, options.connection)
    } finally {
      clearTimeout(cut)
      forget()
    }
  }

  private constructor(client: pg.Client, options: SessionOptions, identity: Identity, direct: boolean, sentAt: number) {
    const trustMs = trustedFor(options.expiryMs)
    super(sentAt, trustMs)
    this.#client = client
    this.#options = options
    this.backendPid = identity.backend_pid
    this.serverVersion = identity.version_number
    this.lockBudget = identity.locks_each * (identity.connections + identity.prepared)
    this.direct = direct
    this.#trustMs = trustMs
    // With this interval, the session sends three to four heartbeats within the expiry.
    this.#heartbeatEveryMs = options.expiryMs * 0.28
    this.#lastSentAt = sentAt
    this.#lastHeartbeatAt = sentAt
    const unreachable = (error?: Error) =>
      this.lose(error ? translate(error) : new DatabaseUnreachableError('The connection was closed'))
    client.on('error', unreachable)
    client.on('end', () => unreachable())
    this.#scheduleHeartbeat()
    this.watchDeadline()
  }

  /** Calls the listener for each notification on this session's channels. */
  onNotification(listener: (channel: string, payload: string) => void): void {
    this.#client.on('notification', ({ channel, payload }) => listener(channel, payload ?? ''))
  }

  /** Runs a prepared statement. Statements are pipelined. Each response extends the client's deadline, as a heartbeat does. */
  run(statement: Statement, values: readonly unknown[] = []): Promise<string[][]> {
    return new Promise((resolve, reject) => {
      if (!this.trusted) return reject(this.loss ?? new ClosedError('The session'))
      const sentAt = performance.now()
      this.#lastSentAt = sentAt
      this.#inFlight++
      const query = {
        name: statement.name,
        text: statement.text,
        values: values as unknown[],
        rowMode: 'array' as const,
      }
      this.#client.query(query, (error: Error | null, result: pg.QueryArrayResult) => {
        this.#inFlight--
        if (error && !sqlstateOf(error)) return reject(this.loss ?? translate(error))
        // A response after the deadline may report locks that the session no longer holds.
        if (!this.answered(sentAt, this.#trustMs)) return reject(this.loss ?? new ClosedError('The session'))
        if (error) reject(translate(error))
        else resolve(result.rows as string[][])
      })
    })
  }

  /**
   * Runs a statement that may grant a name, with the oid of the `fence` sequence as its last parameter. A restored dump replaces this
   * sequence with one that has the same name but a smaller value. Because the oid differs, the statement fails and the session is lost.
   * Without this check, the statement would return a smaller fence.
   */
  async runGrant(statement: Statement, values: readonly unknown[]): Promise<string[][]> {
    try {
      return await this.run(statement, [...values, this.#fenceSequence])
    } catch (error) {
      // PostgreSQL reports "could not open relation with OID …" as an internal error.
      if (sqlstateOf(error) !== sqlstate.internalError) throw error
      this.lose(new DatabaseUnreachableError(restoredMessage, error))
      throw this.loss ?? error
    }
  }

  /** Allocates a session number and locks it, which makes the session present. Repeats if another session already holds the number. */
  async claimNumber(): Promise<void> {
    for (;;) {
      const [row] = await this.run(this.#options.statements.claim_number)
      const [number, claimed, generationBegan, fenceSequence] = row as unknown as [
        number,
        boolean,
        string | null,
        number,
      ]
      if (!claimed) continue
      this.number = number
      this.#fenceSequence = String(fenceSequence)
      this.#generationBegan = generationBegan
      return
    }
  }

  /** Gives this session up if the other session, which has begun later, has found another server generation. */
  loseIfEarlier(other: Session): void {
    if (this.#generationBegan !== other.#generationBegan) this.lose(new DatabaseUnreachableError(earlierMessage))
  }

  /** Replaces the looks that are part of each heartbeat. */
  lookOnHeartbeat(looks: readonly Look[]): void {
    this.#looks = looks
  }

  /** Ends an earlier epoch's session. Otherwise, the server could keep that session until it expires. */
  async endOldSession(backendPid: number): Promise<void> {
    await this.run(this.#options.statements.end_old_session, [backendPid, this.#options.applicationName])
  }

  async close(): Promise<void> {
    if (!this.trusted) return
    this.end()
    clearTimeout(this.#heartbeatTimer)
    // If the connection is unresponsive, `end` never resolves, so the timer cuts the connection.
    const cut = setTimeout(() => this.#cut(), this.#trustMs)
    await this.#client.end().catch(() => {})
    clearTimeout(cut)
  }

  async #applySettings(): Promise<void> {
    const wanted = settingsFor(this.#options.expiryMs)
    const names = Object.keys(wanted)
    const { pin_path: pinPath, no_jit: noJit, apply_settings: apply, read_settings: read } = this.#options.statements
    // The statements are pipelined in this order, so they take one round trip.
    const pinned = Promise.all([this.run(pinPath), this.run(noJit)])
    const applied = this.run(apply, [names, Object.values(wanted)])
    let reading = this.run(read, [names])
    for (const pending of [applied, reading]) pending.catch(() => {})
    await pinned
    await applied.catch(async (error) => {
      if (!this.trusted) throw error
      // Each setting is applied separately, because the server may reject one of them.
      await Promise.allSettled(Object.entries(wanted).map(([name, value]) => this.run(apply, [[name], [value]])))
      reading = this.run(read, [names])
    })
    const got = new Map((await reading) as [string, string][])
    for (const [name, value] of Object.entries(wanted)) {
      if (got.get(name) !== value) this.refusedSettings[name] = { wanted: value, got: got.get(name) ?? null }
    }
  }

  #scheduleHeartbeat(): void {
    const dueInMs = this.#lastSentAt + this.#heartbeatEveryMs - performance.now()
    this.#heartbeatTimer = setTimeout(
      () => {
        const now = performance.now()
        // Any statement extends the deadline, but only a heartbeat checks the generation. Therefore a busy session also sends heartbeats.
        const isSilent = now - this.#lastSentAt >= this.#heartbeatEveryMs && this.#inFlight === 0
        const mustCheckGeneration = this.number > 0 && now - this.#lastHeartbeatAt >= this.#heartbeatEveryMs
        if ((isSilent || mustCheckGeneration) && !this.#isHeartbeatInFlight) this.#sendHeartbeat()
        // The attempt to send the heartbeat may have detected that the deadline has passed.
        if (this.trusted) this.#scheduleHeartbeat()
      },
      Math.max(dueInMs, this.#heartbeatEveryMs / 10),
    )
  }

  #sendHeartbeat(): void {
    const looks = performance.now() < this.#looksFrom ? [] : this.#looks
    this.#lastHeartbeatAt = performance.now()
    this.#isHeartbeatInFlight = true
    const { heartbeat, heartbeat_with_generation } = this.#options.statements
    const hasNumber = this.number > 0
    const sent = hasNumber
      ? this.run(
          withLooks(heartbeat_with_generation, looks),
          looks.map((look) => look.ask(this) ?? null),
        )
      : this.run(heartbeat)
    sent
      .finally(() => {
        this.#isHeartbeatInFlight = false
      })
      .then(
        ([row]) => {
          const [backendPid, generationBegan, ...answers] = row!
          if (Number(backendPid) !== this.backendPid) this.lose(new SessionLocksUnavailableError('transaction-pooler'))
          else if (hasNumber && (generationBegan === null || generationBegan !== this.#generationBegan)) {
            this.lose(new DatabaseUnreachableError(restoredMessage))
          } else for (const [at, answer] of answers.entries()) if (answer !== null) looks[at]!.onAnswer(answer)
        },
        // Other failures need no handling, because either the deadline passes or the connection ends.
        (error) => {
          // A look must not prevent the check of the generation.
          if (looks.length > 0 && this.trusted) {
            this.#looksFrom = performance.now() + withoutLooksMs
            this.#sendHeartbeat()
          } else if (schemaGone.includes(sqlstateOf(error)))
            this.lose(new DatabaseUnreachableError(restoredMessage, error))
        },
      )
  }

  protected lossByDeadline(lateMs: number): HoldfastError {
    const silence = formatDuration(lateMs + this.#trustMs)
    return new DatabaseUnreachableError(
      `No response was received for ${silence}, so the server may end the session at any moment${this.blockedText(lateMs)}`,
    )
  }

  protected override onLost(): void {
    clearTimeout(this.#heartbeatTimer)
    this.#cut()
  }

  #cut(): void {
    this.#client.connection.stream.destroy()
  }
}

/**
 * Returns the heartbeat statement with one additional column per look. Each combination of looks has its own statement name, because
 * a session can prepare only one text under a name.
 */
function withLooks({ name, text }: Statement, looks: readonly Look[]): Statement {
  const columns = looks.map((look, at) => `,\n  (${look.text.replaceAll('$1', `$${at + 1}`)})`)
  return { name: [name, ...looks.map((look) => look.name)].join(' '), text: `${text}${columns.join('')}` }
}

function checkServer(identity: Identity): void {
  if (/cockroach/i.test(identity.version)) throw new SessionLocksUnavailableError('locks-not-enforced')
  if (isPglite(identity.version)) throw new SessionLocksUnavailableError('single-session')
  if (identity.in_recovery) throw new SessionLocksUnavailableError('read-replica')
  if (identity.version_number < minServerVersion) {
    throw new UnsupportedServerError(
      `Expected PostgreSQL 14 or later, got ${identity.version}`,
      'Earlier versions lack idle_session_timeout, which the server needs to enforce the expiry of locks.',
    )
  }
}

/** Session settings, in pg_settings's units. No setting needs special privileges. */
function settingsFor(expiryMs: number): Record<string, string> {
  const expirySeconds = Math.floor(expiryMs / 1_000)
  const idle = Math.max(1, Math.floor(expirySeconds * 0.4))
  const interval = Math.max(1, Math.floor((expirySeconds - idle) / 3))
  const count = Math.max(1, Math.floor((expirySeconds - idle) / interval))
  return {
    // The server ends a session whose client is frozen or cut off.
    idle_session_timeout: String(expiryMs),
    idle_in_transaction_session_timeout: String(expiryMs),
    transaction_timeout: String(expiryMs),
    statement_timeout: String(expiryMs),
    // The server detects a dead client even while the session waits for a lock or runs a statement.
    client_connection_check_interval: '500',
    // The server detects a dead host or network after approximately the expiry.
    tcp_keepalives_idle: String(idle),
    tcp_keepalives_interval: String(interval),
    tcp_keepalives_count: String(count),
    tcp_user_timeout: String(expiryMs),
    // At a higher default isolation level, statements that wait for each other's rows would fail.
    default_transaction_isolation: 'read committed',
    // Fences need no flush, because after a crash advance_fence() skips all numbers that may have been allocated.
    synchronous_commit: 'off',
  }
}
