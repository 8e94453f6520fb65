import type pg from 'pg'
import { ClosedError, formatDuration, type HoldfastError, TrustDeadline, whenAborted } from '../base/index.js'
import type { Connection } from './database.js'
import { DatabaseUnreachableError, SessionLocksUnavailableError, UnsupportedServerError } from './errors.js'
import { HostsClient } from './hosts.js'
import { refuseTransactionPooler } from './pooler.js'
import { trustedFor } from './presence.js'
import { sqlstate, sqlstateOf, translate } from './sqlstate.js'
import type { Statement } from './statements.js'

/**
 * A dedicated connection whose session locks are leases that the server enforces.
 *
 * The server ends the session when it has been idle for `expiryMs` (`idle_session_timeout`), and notices a closed
 * socket within half a second even in mid-statement. The client trusts the session for a shorter time (`TrustDeadline`):
 * the server went idle later than the send of the statement that it answered, so it cannot end the session, and grant its
 * locks to others, before the client has given them up. A statement that is under way when the connection is cut in its
 * middle is bounded by `transaction_timeout` (17 and later), by keepalives and by `tcp_user_timeout`.
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

/** A setting that the server did not take as asked. */
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

/** SQLSTATEs of a heartbeat whose schema is not there any more. */
const schemaGone: readonly (string | undefined)[] = [
  sqlstate.undefinedSchema,
  sqlstate.undefinedTable,
  sqlstate.undefinedFunction,
]

const restoredMessage = 'The tables of Holdfast were replaced while this session lived, as by a restored backup'

export class Session extends TrustDeadline {
  readonly backendPid: number
  /** Whether the pid that was announced at connecting is the one that answers: if not, something stands between. */
  readonly direct: boolean
  readonly serverVersion: number
  /** How many locks the server's lock table was made for, all sessions together. */
  readonly lockBudget: number
  /** The number that PostgreSQL vouches for; 0 until `vouch`. */
  number = 0
  refusedSettings: Record<string, RefusedSetting> = {}

  readonly #client: pg.Client
  readonly #options: SessionOptions
  readonly #trustMs: number
  readonly #heartbeatEveryMs: number
  #lastSentAt: number
  #lastHeartbeatAt: number
  #isHeartbeatInFlight = false
  /** The oid of the sequence `fence`; 0 until `vouch`. */
  #fenceSequence = '0'
  /** When the generation of the session began, as the server writes it; undefined until `vouch`. */
  #generationBegan: string | null | undefined
  #inFlight = 0
  #heartbeatTimer: NodeJS.Timeout | undefined

  /** Given up when the signal aborts. */
  static async open(options: SessionOptions, signal?: AbortSignal): Promise<Session> {
    const client = new HostsClient({
      ...options.connection,
      application_name: options.applicationName,
      keepAlive: true,
      connectionTimeoutMillis: options.expiryMs,
      pipeline: true,
    } as pg.ClientConfig)
    // Until the session watches it, an error on the connection only fails the statement that is under way.
    client.on('error', () => {})
    // Until there is a heartbeat, nothing else would end a connection that falls silent.
    const cut = setTimeout(() => client.connection.stream.destroy(), options.expiryMs)
    const forget = whenAborted(signal, () => client.connection.stream.destroy())
    try {
      await client.connect()
      const sentAt = performance.now()
      const identity = (await client.query<Identity>(options.statements.identify.text)).rows[0]!
      checkServer(identity)
      const direct = (client as unknown as { processID: number }).processID === identity.backend_pid
      // Before anything is set: behind a transaction pooler the settings would go to strangers.
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
    // Three to four beats within the expiry.
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

  /** Calls back with what is notified on the channels that this session listens on. */
  onNotification(listener: (channel: string, payload: string) => void): void {
    this.#client.on('notification', ({ channel, payload }) => listener(channel, payload ?? ''))
  }

  /** Runs a prepared statement; every answer is also a heartbeat. Statements go out at once and are answered in order. */
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
        // An answer that comes too late may speak of locks that are gone by now.
        if (!this.answered(sentAt, this.#trustMs)) return reject(this.loss ?? new ClosedError('The session'))
        if (error) reject(translate(error))
        else resolve(result.rows as string[][])
      })
    })
  }

  /**
   * Runs a statement that may grant, with the oid of the sequence of fences as its last value. A restored dump has another
   * sequence of the same name, which is behind. By the oid such a grant fails, and the session with it, instead of getting
   * a smaller fence.
   */
  async runGrant(statement: Statement, values: readonly unknown[]): Promise<string[][]> {
    try {
      return await this.run(statement, [...values, this.#fenceSequence])
    } catch (error) {
      // "could not open relation with OID …"
      if (sqlstateOf(error) !== sqlstate.internalError) throw error
      this.lose(new DatabaseUnreachableError(restoredMessage, error))
      throw this.loss ?? error
    }
  }

  /** Draws this session's number and lets PostgreSQL vouch for it. Draws again where another session has the number. */
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

  /** Ends the session of a past life that may linger on the server until its own expiry. */
  async endOldSession(backendPid: number): Promise<void> {
    await this.run(this.#options.statements.end_old_session, [backendPid, this.#options.applicationName])
  }

  /** Ends the session in good order. */
  async close(): Promise<void> {
    if (!this.trusted) return
    this.end()
    clearTimeout(this.#heartbeatTimer)
    // A silent connection would never say goodbye.
    const cut = setTimeout(() => this.#cut(), this.#trustMs)
    await this.#client.end().catch(() => {})
    clearTimeout(cut)
  }

  async #applySettings(): Promise<void> {
    const wanted = settingsFor(this.#options.expiryMs)
    const names = Object.keys(wanted)
    const { pin_path: pinPath, no_jit: noJit, apply_settings: apply, read_settings: read } = this.#options.statements
    // All go out together, in this order: the first two cost no round trip.
    const [set, asked] = [
      Promise.all([this.run(pinPath), this.run(noJit)]),
      this.run(apply, [names, Object.values(wanted)]),
    ]
    asked.catch(() => {})
    await set
    await asked.catch(async (error) => {
      if (!this.trusted) throw error
      // One that this server refuses must not keep the others from being set.
      await Promise.allSettled(Object.entries(wanted).map(([name, value]) => this.run(apply, [[name], [value]])))
    })
    const got = new Map((await this.run(read, [names])) as [string, string][])
    for (const [name, value] of Object.entries(wanted)) {
      if (got.get(name) !== value) this.refusedSettings[name] = { wanted: value, got: got.get(name) ?? null }
    }
  }

  #scheduleHeartbeat(): void {
    const dueInMs = this.#lastSentAt + this.#heartbeatEveryMs - performance.now()
    this.#heartbeatTimer = setTimeout(
      () => {
        const now = performance.now()
        // Any statement is a heartbeat; but only a beat looks at the generation, so a busy session beats as well.
        const isSilent = now - this.#lastSentAt >= this.#heartbeatEveryMs && this.#inFlight === 0
        const mustCheckGeneration = this.number > 0 && now - this.#lastHeartbeatAt >= this.#heartbeatEveryMs
        if ((isSilent || mustCheckGeneration) && !this.#isHeartbeatInFlight) this.#sendHeartbeat()
        // The beat may have found that the deadline has passed, and a lost session beats no more.
        if (this.trusted) this.#scheduleHeartbeat()
      },
      Math.max(dueInMs, this.#heartbeatEveryMs / 10),
    )
  }

  #sendHeartbeat(): void {
    this.#lastHeartbeatAt = performance.now()
    this.#isHeartbeatInFlight = true
    const { heartbeat, heartbeat_with_generation } = this.#options.statements
    const hasNumber = this.number > 0
    this.run(hasNumber ? heartbeat_with_generation : heartbeat)
      .then(
        ([row]) => {
          if (Number(row![0]) !== this.backendPid) this.lose(new SessionLocksUnavailableError('transaction-pooler'))
          else if (hasNumber && (row![1] === null || row![1] !== this.#generationBegan)) {
            this.lose(new DatabaseUnreachableError(restoredMessage))
          }
        },
        // Any other failed beat needs no answer of its own: the deadline, or the connection's end, speaks.
        (error) => {
          if (schemaGone.includes(sqlstateOf(error))) this.lose(new DatabaseUnreachableError(restoredMessage, error))
        },
      )
      .finally(() => {
        this.#isHeartbeatInFlight = false
      })
  }

  protected lossByDeadline(lateMs: number): HoldfastError {
    const silence = formatDuration(lateMs + this.#trustMs)
    return new DatabaseUnreachableError(`No answer was received for ${silence}, and the server may end the session now`)
  }

  protected override onLost(): void {
    clearTimeout(this.#heartbeatTimer)
    this.#cut()
  }

  #cut(): void {
    this.#client.connection.stream.destroy()
  }
}

function checkServer(identity: Identity): void {
  if (/cockroach/i.test(identity.version)) throw new SessionLocksUnavailableError('locks-not-enforced')
  if (/pglite/i.test(identity.version)) throw new SessionLocksUnavailableError('single-session')
  if (identity.in_recovery) throw new SessionLocksUnavailableError('read-replica')
  if (identity.version_number < minServerVersion) {
    throw new UnsupportedServerError(
      `Expected PostgreSQL 14 or later, got ${identity.version}`,
      'idle_session_timeout, by which the server enforces the expiry of locks, came with 14.',
    )
  }
}

/** What a session sets for itself, in the units of pg_settings. A plain role may set all of these. */
function settingsFor(expiryMs: number): Record<string, string> {
  const expirySeconds = Math.floor(expiryMs / 1_000)
  const idle = Math.max(1, Math.floor(expirySeconds * 0.4))
  const interval = Math.max(1, Math.floor((expirySeconds - idle) / 3))
  const count = Math.max(1, Math.floor((expirySeconds - idle) / interval))
  return {
    // A client that is frozen or cut off is ended by the server itself.
    idle_session_timeout: String(expiryMs),
    idle_in_transaction_session_timeout: String(expiryMs),
    transaction_timeout: String(expiryMs),
    statement_timeout: String(expiryMs),
    // A dead client is noticed even while its session waits for a lock or runs a statement.
    client_connection_check_interval: '500',
    // A host or network that is gone is noticed about when the expiry ends.
    tcp_keepalives_idle: String(idle),
    tcp_keepalives_interval: String(interval),
    tcp_keepalives_count: String(count),
    tcp_user_timeout: String(expiryMs),
    // Other levels, where they are the database's default, would fail statements that wait for each other's rows.
    default_transaction_isolation: 'read committed',
    // Fences need no flush: what a crash forgets, advance_fence() leaps over.
    synchronous_commit: 'off',
  }
}
