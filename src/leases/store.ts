import { Batcher, type Key } from '../base/index.js'
import {
  type Database,
  loadStatements,
  type Presence,
  responseTimeoutMs,
  retryOnConflict,
  type Statement,
  Sweeper,
} from '../postgres/index.js'
import { holdIdOf } from './renewals.js'

export interface LeaseStoreOptions {
  readonly database: Database
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

type StatementName =
  | 'acquire_one'
  | 'acquire'
  | 'mark_waited_for'
  | 'renew_leases'
  | 'release_one'
  | 'release'
  | 'sweep'
  | 'guard'

interface AcquireRow {
  readonly grace_over: boolean
  readonly fence: string | null
  readonly fresh: boolean
  readonly free_in_ms: number | null
  readonly has_waiters: boolean | null
}

const sweepEveryMs = 600_000
const maxSwept = 1_000

/** Runs lease statements in batches, with one batch per event-loop turn. */
export class LeaseStore {
  readonly sql
  readonly #acquisitions = new Batcher<LeaseRequest, AcquireResult>((requests) => this.#acquireAll(requests))
  readonly #releases = new Batcher<ReleaseRequest, boolean>((requests) => this.#releaseAll(requests))
  readonly #waitMarks = new Batcher<string, void>((keys) => this.#markAllWaitedFor(keys))
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
    const rows = await this.#queryAcquire(sent)
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

  #queryAcquire(requests: readonly LeaseRequest[]): Promise<AcquireRow[]> {
    const { instanceId, name } = this.options.presence
    if (requests.length === 1) {
      const [{ key, token, ttlMs, minHoldMs }] = requests as [LeaseRequest]
      return this.#query<AcquireRow>(this.sql.acquire_one, [key.key, token, ttlMs, minHoldMs, instanceId, name])
    }
    return this.#query<AcquireRow>(this.sql.acquire, [
      requests.map(({ key }) => key.key),
      requests.map(({ token }) => token),
      requests.map(({ ttlMs }) => ttlMs),
      requests.map(({ minHoldMs }) => minHoldMs),
      instanceId,
      name,
    ])
  }

  async #releaseAll(requests: readonly ReleaseRequest[]): Promise<boolean[]> {
    const { schema } = this.options
    if (requests.length === 1) {
      const [{ key, token, fence }] = requests as [ReleaseRequest]
      const [row] = await this.#query<{ released: boolean }>(this.sql.release_one, [key, token, fence, schema])
      return [row!.released]
    }
    const rows = await this.#query<{ key: string; token: string }>(this.sql.release, [
      requests.map(({ key }) => key),
      requests.map(({ token }) => token),
      requests.map(({ fence }) => fence),
      schema,
    ])
    const released = new Set(rows.map(({ key, token }) => holdIdOf(key, token)))
    return requests.map(({ key, token }) => released.has(holdIdOf(key, token)))
  }

  async #markAllWaitedFor(keys: readonly string[]): Promise<undefined[]> {
    await this.options.database.query(this.sql.mark_waited_for.text, [[...new Set(keys)]], responseTimeoutMs)
    return keys.map(() => undefined)
  }

  #query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return retryOnConflict(() => this.options.database.query<Row>(statement.text, values, responseTimeoutMs))
  }
}
