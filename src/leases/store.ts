import { Batcher, type Key } from '../base/index.js'
import {
  type Database,
  loadStatements,
  type NameRegistry,
  type Presence,
  responseTimeoutMs,
  retryOnConflict,
  type Statement,
  Sweeper,
} from '../postgres/index.js'
import { holdIdOf } from './renewals.js'

export interface LeaseStoreOptions {
  readonly database: Database
  readonly names: NameRegistry
  readonly schema: string
  readonly presence: Pick<Presence, 'instanceId' | 'name'>
}

export interface LeaseRequest {
  readonly key: Key
  readonly token: string
  readonly ttlMs: number
  readonly minHoldMs: number
  /** Whether the caller provided the token. In that case, other processes may have the same token. */
  readonly hasGivenToken: boolean
}

export interface AcquireResult {
  readonly graceOver: boolean
  /** Null if another holder has the name. */
  readonly fence: number | null
  /** Whether this request acquired the lease. False if the token already held the lease. */
  readonly isFresh: boolean
  readonly freeInMs: number | null
  readonly hasWaiters: boolean
  readonly sentAt: number
}

export interface ReleaseRequest {
  readonly key: string
  readonly token: string
  /** Fence of the grant to release. If null, any grant to the token is released. */
  readonly fence: number | null
}

type StatementName = 'acquire' | 'mark_waited_for' | 'renew_leases' | 'release' | 'sweep' | 'guard'

const sweepEveryMs = 600_000
const maxSwept = 1_000

/** Runs lease statements in batches, with one batch per event-loop turn. */
export class LeaseStore {
  readonly sql
  readonly #acquisitions = new Batcher<LeaseRequest, AcquireResult>((requests) => this.#acquireAll(requests))
  readonly #releases = new Batcher<ReleaseRequest, boolean>((requests) => this.#releaseAll(requests))
  readonly #waitMarks = new Batcher<string, void>((keys) => this.#markAllWaitedFor(keys))
  readonly #registrations = new Batcher<Key, Error | undefined>((keys) => this.#registerAll(keys))
  readonly #sweeper = new Sweeper({ everyMs: sweepEveryMs, sweep: () => this.#sweep() })

  constructor(readonly options: LeaseStoreOptions) {
    this.sql = loadStatements<StatementName>(new URL('./leases.sql', import.meta.url), options.schema)
  }

  acquire(request: LeaseRequest): Promise<AcquireResult> {
    return this.#acquisitions.add(request)
  }

  /** Returns whether the token still held the lease. */
  release(release: ReleaseRequest): Promise<boolean> {
    return this.#releases.add(release)
  }

  /** Requests a notification for when the name is released. */
  markWaitedFor(key: string): Promise<void> {
    return this.#waitMarks.add(key)
  }

  /** Registers the key's name for display. Throws an error if a different name has the same key. */
  async register(key: Key): Promise<void> {
    if (this.options.names.isKnown(key)) return
    const collision = await this.#registrations.add(key)
    if (collision) throw collision
  }

  sweepSometimes(): void {
    this.#sweeper.sweepIfDue()
  }

  async #sweep(): Promise<boolean> {
    const [row] = await this.options.database.query<{ removed: number }>(
      this.sql.sweep.text,
      [maxSwept],
      responseTimeoutMs,
    )
    return row!.removed === maxSwept
  }

  async #acquireAll(requests: readonly LeaseRequest[]): Promise<AcquireResult[]> {
    // Sends only one request per name and refuses the other requests. Prefers a request whose caller provided a token,
    // because that token may already hold the name.
    const first = new Map<string, LeaseRequest>()
    for (const request of requests) {
      const other = first.get(request.key.key)
      if (!other || (request.hasGivenToken && !other.hasGivenToken)) first.set(request.key.key, request)
    }
    const sent = [...first.values()]
    const sentAt = performance.now()
    const values = [
      sent.map(({ key }) => key.key),
      sent.map(({ token }) => token),
      sent.map(({ ttlMs }) => ttlMs),
      sent.map(({ minHoldMs }) => minHoldMs),
      this.options.presence.instanceId,
      this.options.presence.name,
    ]
    const rows = await this.#query<{
      grace_over: boolean
      fence: string | null
      fresh: boolean
      free_in_ms: number | null
      has_waiters: boolean | null
    }>(this.sql.acquire, values)
    const results = new Map(
      rows.map((row, at) => [
        sent[at]!.key.key,
        {
          graceOver: row.grace_over,
          fence: row.fence === null ? null : Number(row.fence),
          isFresh: row.fresh,
          freeInMs: row.free_in_ms,
          hasWaiters: row.has_waiters ?? false,
          sentAt,
        },
      ]),
    )
    return requests.map((request) => {
      const result = results.get(request.key.key)!
      const { token, ttlMs } = first.get(request.key.key)!
      const isOurs = token === request.token
      return isOurs || result.fence === null
        ? result
        : { ...result, fence: null, isFresh: false, freeInMs: ttlMs, hasWaiters: false }
    })
  }

  async #releaseAll(requests: readonly ReleaseRequest[]): Promise<boolean[]> {
    const values = [
      requests.map(({ key }) => key),
      requests.map(({ token }) => token),
      requests.map(({ fence }) => fence),
      this.options.schema,
    ]
    const rows = await this.#query<{ key: string; token: string }>(this.sql.release, values)
    const released = new Set(rows.map(({ key, token }) => holdIdOf(key, token)))
    return requests.map(({ key, token }) => released.has(holdIdOf(key, token)))
  }

  async #markAllWaitedFor(keys: readonly string[]): Promise<undefined[]> {
    await this.options.database.query(this.sql.mark_waited_for.text, [[...new Set(keys)]], responseTimeoutMs)
    return keys.map(() => undefined)
  }

  async #registerAll(keys: readonly Key[]): Promise<(Error | undefined)[]> {
    const { names } = this.options
    const fresh = [...new Map(keys.map((key) => [key.key, key])).values()]
    const rows = await this.#query<{ key: string; namespace: string; label: string }>(
      names.register,
      names.registerValues(fresh),
    )
    const collisions = names.recordRegistered(
      fresh,
      rows.map((row) => [row.key, row.namespace, row.label]),
    )
    return keys.map(({ key }) => collisions.get(key))
  }

  #query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return retryOnConflict(() => this.options.database.query<Row>(statement.text, values, responseTimeoutMs))
  }
}
