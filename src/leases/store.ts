import { Batcher, type Key } from '../base/index.js'
import {
  type Database,
  loadStatements,
  type NameRegistry,
  responseTimeoutMs,
  retryOnConflict,
  Sweeper,
} from '../postgres/index.js'
import { holdIdOf } from './renewals.js'

export interface LeaseStoreOptions {
  readonly database: Database
  readonly names: NameRegistry
  readonly schema: string
  readonly instanceId: string
}

export interface LeaseRequest {
  readonly key: Key
  readonly token: string
  readonly ttlMs: number
  readonly minHoldMs: number
  /** Whether the caller gave the token, so that others may know it. */
  readonly hasGivenToken: boolean
}

export interface AcquireResult {
  readonly graceOver: boolean
  /** Null when somebody else has it. */
  readonly fence: number | null
  /** Whether it was granted by this ask; else the token had it before, and somebody else may rely on that. */
  readonly isFresh: boolean
  readonly freeInMs: number | null
  readonly hasWaiters: boolean
  readonly sentAt: number
}

export interface ReleaseRequest {
  readonly key: string
  readonly token: string
  /** Null where it is not known: then whatever the token has. */
  readonly fence: number | null
}

type StatementName = 'acquire' | 'mark_waited_for' | 'renew_leases' | 'release' | 'sweep' | 'guard'

const sweepEveryMs = 600_000
const maxSwept = 1_000

/** The rows of leases, asked in batches: all that is asked for in one turn of the event loop is one statement. */
export class LeaseStore {
  readonly sql
  readonly #options: LeaseStoreOptions
  readonly #acquisitions = new Batcher<LeaseRequest, AcquireResult>((requests) => this.#acquireAll(requests))
  readonly #releases = new Batcher<ReleaseRequest, boolean>((requests) => this.#releaseAll(requests))
  readonly #waitMarks = new Batcher<string, void>((keys) => this.#markAllWaitedFor(keys))
  readonly #registrations = new Batcher<Key, Error | undefined>((keys) => this.#registerAll(keys))
  /** Rows of names that were leased once must not pile up. */
  readonly #sweeper = new Sweeper({ everyMs: sweepEveryMs, sweep: () => this.#sweep() })

  constructor(options: LeaseStoreOptions) {
    this.#options = options
    this.sql = loadStatements<StatementName>(new URL('./leases.sql', import.meta.url), options.schema)
  }

  /** One decision of the database. */
  acquire(request: LeaseRequest): Promise<AcquireResult> {
    return this.#acquisitions.add(request)
  }

  /** Whether it was still the holder's. */
  release(release: ReleaseRequest): Promise<boolean> {
    return this.#releases.add(release)
  }

  /** Whoever releases the name shall tell. */
  markWaitedFor(key: string): Promise<void> {
    return this.#waitMarks.add(key)
  }

  /** Registers the name, so that people see it; throws when its key is that of another. */
  async register(key: Key): Promise<void> {
    if (this.#options.names.isKnown(key)) return
    const collision = await this.#registrations.add(key)
    if (collision) throw collision
  }

  sweepSometimes(): void {
    this.#sweeper.sweepIfDue()
  }

  async #sweep(): Promise<boolean> {
    const [row] = await this.#options.database.query<{ removed: number }>(
      this.sql.sweep.text,
      [maxSwept],
      responseTimeoutMs,
    )
    return row!.removed === maxSwept
  }

  async #acquireAll(requests: readonly LeaseRequest[]): Promise<AcquireResult[]> {
    // Of several asks for one name only one can be granted; the others hear what it hears. Best the one that may have it already.
    const first = new Map<string, LeaseRequest>()
    for (const request of requests) {
      const other = first.get(request.key.key)
      if (!other || (request.hasGivenToken && !other.hasGivenToken)) first.set(request.key.key, request)
    }
    const sent = [...first.values()]
    const sentAt = performance.now()
    const { database, instanceId } = this.#options
    const values = [
      sent.map(({ key }) => key.key),
      sent.map(({ token }) => token),
      sent.map(({ ttlMs }) => ttlMs),
      sent.map(({ minHoldMs }) => minHoldMs),
      instanceId,
    ]
    const rows = await retryOnConflict(() =>
      database.query<{
        grace_over: boolean
        fence: string | null
        fresh: boolean
        free_in_ms: number | null
        has_waiters: boolean | null
      }>(this.sql.acquire.text, values, responseTimeoutMs),
    )
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
    const { database, schema } = this.#options
    const values = [
      requests.map(({ key }) => key),
      requests.map(({ token }) => token),
      requests.map(({ fence }) => fence),
      schema,
    ]
    const rows = await retryOnConflict(() =>
      database.query<{ key: string; token: string }>(this.sql.release.text, values, responseTimeoutMs),
    )
    const released = new Set(rows.map(({ key, token }) => holdIdOf(key, token)))
    return requests.map(({ key, token }) => released.has(holdIdOf(key, token)))
  }

  async #markAllWaitedFor(keys: readonly string[]): Promise<undefined[]> {
    await this.#options.database.query(this.sql.mark_waited_for.text, [[...new Set(keys)]], responseTimeoutMs)
    return keys.map(() => undefined)
  }

  async #registerAll(keys: readonly Key[]): Promise<(Error | undefined)[]> {
    const { names, database } = this.#options
    const fresh = [...new Map(keys.map((key) => [key.key, key])).values()]
    const rows = await retryOnConflict(() =>
      database.query<{ key: string; namespace: string; label: string }>(
        names.register.text,
        names.registerValues(fresh),
        responseTimeoutMs,
      ),
    )
    const collisions = names.recordRegistered(
      fresh,
      rows.map((row) => [row.key, row.namespace, row.label]),
    )
    return keys.map(({ key }) => collisions.get(key))
  }
}
