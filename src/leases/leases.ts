import { randomUUID } from 'node:crypto'
import {
  abortSignal,
  Calls,
  ClosedError,
  checkName,
  combineSignals,
  type Duration,
  defaultTimes,
  duration,
  type Events,
  hashedKey,
  type Key,
  maxTimerMs,
  type OptionsAndWork,
  pause,
  readOptions,
  readWork,
  resultWithin,
  runHolding,
  type TracerSlot,
  text,
  whileHeld,
} from '../base/index.js'
import {
  type Anchor,
  type Database,
  type HolderLookup,
  type NameRegistry,
  type Presence,
  responseTimeoutMs,
  type WaitTracker,
  waitForRelease,
} from '../postgres/index.js'
import { LeaseAcquirer } from './acquirer.js'
import { LeaseTimeoutError } from './errors.js'
import { type Lease, ttlRule } from './lease.js'
import type { LeaseHold } from './lease-hold.js'
import { LeaseReleaser } from './releaser.js'
import { Renewals } from './renewals.js'
import { LeaseStore } from './store.js'

export interface LeaseOptions {
  /**
   * Time to live (TTL): the time after which the lease expires if it is not renewed. A dead holder keeps the name for
   * up to this time. At least 1 s. Default 30 s.
   */
  ttl?: Duration | undefined
  /** Minimum time for which the name stays taken after the grant, even if the lease is released earlier. Default 0. */
  minHold?: Duration | undefined
  /** Maximum time to wait for the name. Default: no limit for `acquire` and `with`, 0 for `tryAcquire`. */
  wait?: Duration | undefined
  /** Maximum random delay before the first attempt, so that one instance does not win every name. Default 0. */
  spread?: Duration | undefined
  /**
   * Token of an earlier acquisition (`lease.token`). If this token still holds the name, the lease is granted again.
   */
  token?: string | undefined
  /** Signal that aborts the request. If the lease is granted after that, the lease is released. */
  signal?: AbortSignal | undefined
}

interface LeasesOptions {
  readonly database: Database
  /** Connections that renew leases if there is no anchor connection. */
  readonly keepaliveDatabase: Database
  readonly anchor: Anchor | undefined
  readonly names: NameRegistry
  readonly schema: string
  readonly namespace: string
  readonly presence: Presence
  readonly events: Events
  readonly tracing: TracerSlot
  readonly waits: WaitTracker
  readonly holders: HolderLookup
}

const rules = {
  ttl: ttlRule,
  minHold: duration(0, maxTimerMs),
  wait: duration(0, maxTimerMs),
  spread: duration(0, maxTimerMs),
  token: {
    expected: text.expected,
    read: (given: unknown) => (text.read(given) === undefined ? undefined : checkToken(given)),
  },
  signal: abortSignal,
}

/** A statement contains the tokens of many requests, so a token that PostgreSQL cannot store would fail the other requests too. */
function checkToken(given: unknown): string {
  return checkName(given, 'token', 'Pass the `token` of a lease, or a string of your own that contains a random UUID.')
}

/**
 * Provides leases: distributed locks whose expiry follows the database clock. Leases need no database session, so they
 * work through any connection pooler. If a holder dies, its lease ends when it expires.
 *
 * @example
 * await holdfast.leases.with('etl', { ttl: '1m', minHold: '10m' }, async ({ signal, fence }) => {
 *   await load({ signal, fence })
 * })
 */
export class Leases {
  readonly #options: LeasesOptions
  readonly #store: LeaseStore
  readonly #renewals: Renewals
  readonly #releaser: LeaseReleaser
  readonly #acquirer: LeaseAcquirer
  readonly #calls = new Calls()

  /** @internal */
  constructor(options: LeasesOptions) {
    this.#options = options
    this.#store = new LeaseStore(options)
    this.#renewals = new Renewals(options.keepaliveDatabase, options.anchor, this.#store.sql.renew_leases)
    this.#releaser = new LeaseReleaser(this.#store, this.#calls.closing, (key) => this.onReleased(key))
    this.#acquirer = new LeaseAcquirer({
      database: options.database,
      store: this.#store,
      renewals: this.#renewals,
      releaser: this.#releaser,
      operations: {
        guard: this.#store.sql.guard,
        events: options.events,
        extend: (holding, ttlMs) => this.#renewals.extend(holding, ttlMs),
        releaseUnused: (holding) => this.#releaseUnused(holding),
      },
      hasNotifications: options.anchor !== undefined,
      waits: options.waits,
    })
  }

  /**
   * Acquires a lease. By default, waits indefinitely. With `wait`, throws `LeaseTimeoutError` after that time.
   *
   * @example
   * await using lease = await holdfast.leases.acquire('etl', { ttl: '30s', wait: '5m' })
   */
  acquire(name: string, options?: LeaseOptions): Promise<Lease> {
    return this.#acquire('leases.acquire', name, options)
  }

  /**
   * Acquires a lease if the name is free, or becomes free within `wait`. Returns null otherwise.
   *
   * @example
   * await using lease = await holdfast.leases.tryAcquire('cleanup', { ttl: '5m', minHold: '1h', spread: '2s' })
   * if (lease === null) return // another instance does it, or has done it within the hour
   */
  tryAcquire(name: string, options?: LeaseOptions): Promise<Lease | null> {
    return this.#acquireWithin('leases.tryAcquire', name, options, defaultTimes.tryAcquireWaitMs)
  }

  /**
   * Runs `work` with the lease and always releases the lease afterwards. Throws `LeaseLostError` if `work` finished
   * after the lease was lost, because another holder may have run at the same time.
   *
   * @example
   * await holdfast.leases.with('etl', async ({ signal }) => load({ signal }))
   */
  with<T>(name: string, work: (lease: Lease) => Promise<T> | T): Promise<T>
  with<T>(name: string, options: LeaseOptions, work: (lease: Lease) => Promise<T> | T): Promise<T>
  async with<T>(name: string, ...rest: OptionsAndWork<LeaseOptions, (lease: Lease) => Promise<T> | T>): Promise<T> {
    const [options, work] = readWork('leases.with', rest)
    const { database, tracing } = this.#options
    const { tracer } = tracing
    const lease = await (tracer
      ? tracer.withSpan('lease wait', { name }, () => this.#acquire('leases.with', name, options))
      : this.#acquire('leases.with', name, options))
    const { fence } = lease
    const held = { handle: lease, keys: [this.#key(name).key], address: database.address }
    const run = () => runHolding(held, () => work(lease))
    return whileHeld(lease, () => (tracer ? tracer.withSpan('lease hold', { name, fence }, run) : run()))
  }

  /**
   * Releases a lease by its token, for example from another process. Returns false, and changes nothing, if the token
   * does not hold the lease.
   *
   * @example
   * const released = await holdfast.leases.release('etl', token)
   */
  async release(name: string, token: string): Promise<boolean> {
    const { key } = this.#key(name)
    checkToken(token)
    const holding = this.#renewals.find(key, token)
    if (holding) {
      this.#renewals.remove(holding)
      holding.lose(new ClosedError('the handle whose lease was released by its token'))
    }
    return this.#releaser.release({ key, token, fence: null })
  }

  /** @internal */
  onReleased(key: string): void {
    this.#acquirer.onReleased(key)
  }

  /** @internal Renews leases immediately, to detect a lease that another process has ended. */
  onExpired(key: string): void {
    const holdings = [...this.#renewals].filter((holding) => holding.key.key === key)
    if (holdings.length > 0) void this.#renewals.renewNow(holdings).catch(() => {})
  }

  /** @internal Waits up to `withinMs` for the current holders, then requests their release. */
  async drain(withinMs: number): Promise<void> {
    await waitForRelease([...this.#renewals], withinMs, {
      isHeld: (holding) => this.#renewals.find(holding.key.key, holding.token) === holding,
      requestRelease: ({ watchers }, reason) => {
        for (const watcher of watchers) watcher.releaseRequested(reason)
      },
    })
  }

  /** @internal */
  async close(): Promise<void> {
    const reason = this.#calls.close()
    const holdings = [...this.#renewals]
    for (const holding of holdings) {
      holding.lose(reason)
      this.#renewals.remove(holding)
    }
    // All pending calls must reject first, because their rejection starts the release of late grants.
    await new Promise(setImmediate)
    const released = holdings.map((holding) => this.#releaser.releaseReliably(holding))
    // An exhausted pool must not block the shutdown. Leases that cannot be released in time expire.
    await resultWithin(responseTimeoutMs, Promise.all([...released, this.#acquirer.settled()]))
  }

  async #acquire(where: string, name: string, options: LeaseOptions | undefined): Promise<Lease> {
    const requestedAt = performance.now()
    const lease = await this.#acquireWithin(where, name, options, defaultTimes.acquireWaitMs)
    if (lease) return lease
    const waitedMs = performance.now() - requestedAt
    const holder = await this.#options.holders.ofNames([this.#key(name).key])
    throw new LeaseTimeoutError(name, waitedMs, holder)
  }

  async #acquireWithin(
    where: string,
    name: string,
    given: LeaseOptions | undefined,
    defaultWaitMs: number,
  ): Promise<Lease | null> {
    const options = readOptions(where, given, rules)
    const {
      wait: waitMs = defaultWaitMs,
      ttl = defaultTimes.leaseTtlMs,
      minHold = defaultTimes.leaseMinHoldMs,
      spread = defaultTimes.leaseSpreadMs,
      token,
      signal,
    } = options
    const key = this.#key(name)
    const request = {
      key,
      token: token ?? randomUUID(),
      ttlMs: Math.ceil(ttl),
      minHoldMs: Math.ceil(minHold),
      hasGivenToken: token !== undefined,
    }
    const { names, events } = this.#options
    names.use(key)
    const requestedAt = performance.now()
    const giveUp = combineSignals(this.#calls.closing, signal)
    const acquire = async () => {
      giveUp.signal.throwIfAborted()
      if (spread > 0) await pause(Math.random() * spread, giveUp.signal)
      return this.#acquirer.acquire(request, waitMs, giveUp.signal)
    }
    try {
      const lease = await this.#calls.run(where, () => name, waitMs > 0 || spread > 0, acquire)
      const waitedMs = performance.now() - requestedAt
      if (lease) events.emitter('lease.acquired')?.({ name, key: key.key, fence: lease.fence, waitedMs })
      else events.emitter('lease.refused')?.({ name, key: key.key, waitedMs })
      return lease
    } finally {
      giveUp.forget()
    }
  }

  async #releaseUnused(holding: LeaseHold): Promise<void> {
    if (holding.watchers.size > 0) return
    this.#renewals.remove(holding)
    await this.#releaser.releaseReliably(holding)
  }

  #key(name: string): Key {
    return hashedKey(this.#options.namespace, checkName(name))
  }
}
