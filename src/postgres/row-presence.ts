import { randomBytes } from 'node:crypto'
import {
  backoffMs,
  ClosedError,
  type Events,
  formatDuration,
  type HoldfastError,
  orAborted,
  pause,
  TrustDeadline,
} from '../base/index.js'
import type { Database } from './database.js'
import { DatabaseUnreachableError } from './errors.js'
import { type InstanceName, instanceNameDays } from './instance-name.js'
import { type DrainListener, type Epoch, type Presence, trustedFor } from './presence.js'
import { responseTimeoutMs } from './response-timeout.js'
import { loadStatements } from './statements.js'
import { Sweeper } from './sweeper.js'

/**
 * Row-based presence, for instances without an anchor. This kind of presence needs no session state, so it works through any pooler.
 *
 *     idle ──► present ──► lost ──► reconnecting ──► present (a new epoch, a new number) …
 *
 * - **idle** until a module needs presence: an instance that uses only leases and transaction locks never needs it, and sends no
 *   statements.
 * - **present**: the instance sends three to four renewals within the expiry. The client relies on an epoch for 90 % of the expiry, counted
 *   from the time when it sent the last successful renewal. The database ends the epoch at expiry, counted from the later execution
 *   of that renewal.
 * - **lost**: there was no response in time, or the row does not exist, or the server restarted, crashed or failed over. A restart, crash
 *   or failover ends all epochs, because rows with their numbers may be lost.
 * - **reconnecting** waits for the grace period after a restart, like an anchor.
 */
export interface RowPresenceOptions {
  readonly database: Database
  readonly schema: string
  readonly namespace: string
  readonly name: InstanceName
  readonly retainDays: number
  readonly expiryMs: number
  readonly version: string
  readonly appVersion?: string | undefined
  readonly events: Events
}

type Name =
  | 'record_row'
  | 'renew_row'
  | 'name_is_taken'
  | 'set_drain_state'
  | 'advance_fence'
  | 'grace_left'
  | 'delete_instance'
  | 'sweep'

interface PresenceRow {
  /** Undefined after a renewal, which does not change the name. */
  readonly name?: string
  readonly session: number
  readonly drain_requested: boolean
  readonly drain_within_ms: string | null
  readonly revocations: number
}

const pollMs = 50
const sweepEveryMs = 3_600_000
const departWithinMs = 2_000

export class RowPresence implements Presence {
  readonly instanceId = randomBytes(6).toString('hex')
  readonly #options: RowPresenceOptions
  readonly #sql
  readonly #sweeper
  readonly #closing = new AbortController()
  #epoch: RowEpoch | undefined
  #lostAt: number | undefined
  #connecting: Promise<void> | undefined
  #state: 'open' | 'draining' | 'drained' = 'open'
  #onDrainRequest: DrainListener = () => {}
  #onRevocation = () => {}
  #revocations = 0

  constructor(options: RowPresenceOptions) {
    this.#options = options
    this.#sql = loadStatements<Name>(new URL('./instance.sql', import.meta.url), options.schema)
    this.#sweeper = new Sweeper({ everyMs: sweepEveryMs, sweep: () => this.#sweep() })
  }

  get name(): string {
    return this.#options.name.current
  }

  async isNameTaken(): Promise<boolean> {
    const { database, namespace, name, expiryMs } = this.#options
    const values = [namespace, this.instanceId, name.wanted]
    const [row] = await database.query<{ taken: boolean }>(this.#sql.name_is_taken.text, values, expiryMs)
    return row!.taken
  }

  get epoch(): Epoch | undefined {
    return this.#epoch?.trusted ? this.#epoch : undefined
  }

  async whenPresent(signal?: AbortSignal): Promise<Epoch> {
    for (;;) {
      if (this.#closing.signal.aborted) throw new ClosedError('This instance')
      signal?.throwIfAborted()
      if (this.epoch) return this.epoch
      this.#connecting ??= this.#connect().finally(() => {
        this.#connecting = undefined
      })
      await orAborted(signal, this.#connecting)
    }
  }

  /** Requests from operators arrive through the row, which each renewal reads. */
  onDrainRequest(listener: DrainListener): void {
    this.#onDrainRequest = listener
  }

  onRevocation(listener: () => void): void {
    this.#onRevocation = listener
  }

  lookOnHeartbeat(): boolean {
    return false
  }

  async reportDrain(state: 'draining' | 'drained'): Promise<void> {
    this.#state = state
    if (!this.epoch) return
    const { database, expiryMs } = this.#options
    // If this statement fails, the beginning of the next epoch records the state.
    await database.query(this.#sql.set_drain_state.text, [this.instanceId, state], expiryMs).catch(() => {})
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#connecting
    if (!this.#epoch) return
    this.#epoch.end()
    if (this.#epoch.loss) return
    // If this statement fails, the row expires later.
    await this.#options.database
      .query(this.#sql.delete_instance.text, [this.instanceId], departWithinMs)
      .catch(() => {})
  }

  /** Begins an epoch. Retries until it succeeds or the instance closes. */
  async #connect(): Promise<void> {
    for (let attempt = 0; !this.#closing.signal.aborted; attempt++) {
      if (attempt > 0) await pause(backoffMs(attempt, 50, 5_000), this.#closing.signal)
      try {
        this.#epoch = await this.#beginEpoch()
        this.#reportEpoch(this.#epoch)
        return
      } catch (error) {
        // The loop retries after any error. Even if a replica responds at this address now, a primary may respond later.
        if (!this.#closing.signal.aborted) this.#options.events.emitter('instance.connect-failed')?.({ error })
      }
    }
  }

  #reportEpoch(life: RowEpoch): void {
    const { events } = this.#options
    if (this.#lostAt !== undefined) {
      events.emitter('instance.reconnected')?.({ lostForMs: performance.now() - this.#lostAt })
    }
    life.onLoss((reason) => {
      this.#lostAt = performance.now()
      events.emitter('instance.lost')?.({ reason })
    })
  }

  async #beginEpoch(): Promise<RowEpoch> {
    const { database, namespace, name, expiryMs, version, appVersion } = this.#options
    const run = (statement: Name, values: unknown[] = []) =>
      database.query<PresenceRow>(this.#sql[statement].text, values, expiryMs)
    await run('advance_fence')
    const sentAt = performance.now()
    const facts = [name.host, process.pid, version, process.versions.node, expiryMs, this.#state, Date.now()]
    const values = [this.instanceId, namespace, ...facts, name.wanted, name.current, appVersion ?? null]
    const [row] = await database.write<PresenceRow>(this.#sql.record_row.text, values, expiryMs)
    name.onRecorded(row!.name!)
    const number = Number(row!.session)
    const life = new RowEpoch(number, expiryMs, sentAt, async () => {
      const [renewed] = await run('renew_row', [this.instanceId, number])
      this.#onRow(renewed)
      this.#sweeper.sweepIfDue()
      return renewed !== undefined
    })
    try {
      await this.#waitForGrace(life)
      this.#onRow(row)
      return life
    } catch (error) {
      // An epoch that never became current must not renew itself.
      life.end()
      await run('delete_instance', [this.instanceId]).catch(() => {})
      throw error
    }
  }

  async #sweep(): Promise<boolean> {
    const { database, retainDays } = this.#options
    const values = [instanceNameDays(retainDays)]
    const [row] = await database.write<{ more: number }>(this.#sql.sweep.text, values, responseTimeoutMs)
    return row!.more > 0
  }

  #onRow(recorded: PresenceRow | undefined): void {
    if (recorded && recorded.revocations !== this.#revocations) {
      this.#revocations = recorded.revocations
      this.#onRevocation()
    }
    if (!recorded?.drain_requested) return
    // The instance is already draining, but the row does not contain this state yet.
    if (this.#state !== 'open') return void this.reportDrain(this.#state)
    this.#onDrainRequest(recorded.drain_within_ms === null ? undefined : Number(recorded.drain_within_ms))
  }

  async #waitForGrace(life: RowEpoch): Promise<void> {
    const { database, expiryMs } = this.#options
    for (;;) {
      const [grace] = await database.query<{ left_ms: number }>(this.#sql.grace_left.text, [], expiryMs)
      const leftMs = Number(grace!.left_ms)
      if (leftMs <= 0) return
      if (this.#closing.signal.aborted) throw new ClosedError('This instance')
      if (!life.trusted) throw life.loss
      await pause(Math.min(leftMs, pollMs), this.#closing.signal)
    }
  }
}

class RowEpoch extends TrustDeadline implements Epoch {
  readonly #trustMs: number
  readonly #renew: () => Promise<boolean>
  readonly #renewTimer: NodeJS.Timeout

  constructor(
    readonly number: number,
    expiryMs: number,
    sentAt: number,
    renew: () => Promise<boolean>,
  ) {
    const trustMs = trustedFor(expiryMs)
    super(sentAt, trustMs)
    this.#trustMs = trustMs
    this.#renew = renew
    // Renewals use an interval and not a chain of timers, because a renewal without a response must not delay the next renewal.
    this.#renewTimer = setInterval(() => void this.#renewNow(), expiryMs * 0.28)
    this.watchDeadline()
  }

  override end(): void {
    super.end()
    clearInterval(this.#renewTimer)
  }

  protected lossByDeadline(lateMs: number): HoldfastError {
    const silence = formatDuration(lateMs + this.#trustMs)
    return new DatabaseUnreachableError(
      `No renewal has succeeded for ${silence}, so the presence may expire at any moment${this.blockedText(lateMs)}`,
    )
  }

  protected override onLost(): void {
    clearInterval(this.#renewTimer)
  }

  async #renewNow(): Promise<void> {
    const sentAt = performance.now()
    // A failed renewal is sent again after the interval. If the next attempt is too late, the deadline ends the epoch.
    const renewed = await this.#renew().catch(() => undefined)
    if (renewed) this.answered(sentAt, this.#trustMs)
    else if (renewed === false && this.trusted)
      this.lose(new DatabaseUnreachableError('The presence of this instance has expired, or the server has restarted'))
  }
}
