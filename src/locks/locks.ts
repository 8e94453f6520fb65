import { randomBytes } from 'node:crypto'
import {
  abortSignal,
  Calls,
  checkName,
  type Duration,
  defaultTimes,
  describe,
  duration,
  type Events,
  hashedKey,
  type Key,
  keysHeldByFlow,
  listOf,
  maxTimerMs,
  numberedKey,
  numbersPerSpace,
  type OptionsAndWork,
  oneOf,
  pairKey,
  readOptions,
  readWork,
  runHolding,
  type TracerSlot,
  UsageError,
  whileHeld,
} from '../base/index.js'
import {
  type Anchor,
  type CallerTransaction,
  type Database,
  DatabaseUnreachableError,
  executorOf,
  type HolderLookup,
  loadStatements,
  type NameRegistry,
  SessionLocksUnavailableError,
  type Statement,
  type WaitTracker,
  waitForRelease,
} from '../postgres/index.js'
import { type AcquireOptions, Arbiter, type ArbiterOptions } from './arbiter.js'
import { withNamesOfDeadlock } from './deadlock.js'
import { LockTimeoutError } from './errors.js'
import type { Hold } from './hold.js'
import { HoldRecorder, type HoldRecorderStatements } from './hold-recorder.js'
import { lockInTransaction, type TransactionLock, type TransactionLockStatements } from './in-transaction.js'
import { Lock } from './lock.js'
import type { LockMode } from './lock-batcher.js'
import { isReentrant, LockFlowHold } from './reentrancy.js'

/** Name in this instance's namespace, or key from `locks.pair` or `locks.space`. */
export type Lockable = string | Key

export interface LockOptions {
  /** `exclusive` (default): one holder. `shared`: several readers, but no exclusive holder at the same time. */
  mode?: LockMode | undefined
  /** Maximum time to wait for the name. Default: no limit for `acquire` and `with`, 0 for `tryAcquire`. */
  wait?: Duration | undefined
  /** Signal that aborts the request. If the lock is granted after that, the lock is released. */
  signal?: AbortSignal | undefined
}

/** Registered range of keys. Each key is the sum of a random base and a number. */
export interface KeySpace {
  readonly space: string
  /** Returns the key for a number from 0 to 1,048,575. */
  at(number: number): Key
}

export interface LocksOptions {
  readonly database: Database
  /** Undefined if the instance has no session that can hold locks. */
  readonly anchor: Anchor | undefined
  readonly names: NameRegistry
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  readonly waitConnections: number
  readonly events: Events
  readonly tracing: TracerSlot
  readonly waits: WaitTracker
  readonly holders: HolderLookup
}

type LockStatements = ArbiterOptions['statements'] &
  HoldRecorderStatements &
  TransactionLockStatements &
  Record<'guard' | 'labels' | 'open_space', Statement>

const rules = {
  mode: oneOf('exclusive', 'shared'),
  wait: duration(0, maxTimerMs),
  signal: abortSignal,
}

const keyCacheSize = 10_000

/**
 * Provides distributed locks (mutexes and shared locks) that PostgreSQL enforces. A lock lasts until the process
 * releases it or dies.
 *
 * @example
 * await holdfast.locks.with('nightly-report', { wait: '5s' }, async ({ signal, fence }) => {
 *   await writeReport({ signal, fence })
 * })
 */
export class Locks {
  readonly #options: LocksOptions
  readonly #sql: LockStatements
  readonly #arbiter: Arbiter | undefined
  readonly #holdRecorder: HoldRecorder | undefined
  readonly #keys = new Map<string, Key>()
  readonly #calls = new Calls()
  readonly #giveBack = (hold: Hold) => this.#arbiter!.release(hold)

  /** @internal */
  constructor(options: LocksOptions) {
    this.#options = options
    this.#sql = loadStatements(new URL('./locks.sql', import.meta.url), options.schema)
    const { anchor, names, expiryMs, waitConnections, waits } = options
    if (!anchor) return
    const arbiter = new Arbiter({ anchor, names, statements: this.#sql, expiryMs, waitConnections, waits })
    this.#arbiter = arbiter
    this.#holdRecorder = new HoldRecorder(anchor, arbiter, this.#sql)
    waits.addSource(() => arbiter.waitingRequests())
  }

  /**
   * Acquires a lock on one or more names. Several names are acquired all or nothing, in a fixed order, so these calls
   * cannot deadlock with each other. By default, waits indefinitely. With `wait`, throws `LockTimeoutError`
   * after that time, or `DatabaseUnreachableError` if this instance has no connection to the database then.
   *
   * @example
   * await using lock = await holdfast.locks.acquire(['account:1', 'account:2'], { wait: '5s' })
   */
  acquire(names: Lockable | readonly Lockable[], options?: LockOptions): Promise<Lock> {
    return this.#acquire('locks.acquire', names, options)
  }

  /**
   * Acquires the lock if the names are free, or become free within `wait`. Returns null otherwise. Throws `DatabaseUnreachableError`
   * if this instance has no connection to the database.
   *
   * @example
   * await using lock = await holdfast.locks.tryAcquire('invoice:42')
   * if (lock === null) return
   */
  tryAcquire(names: Lockable | readonly Lockable[], options?: LockOptions): Promise<Lock | null> {
    return this.#acquireWithin('locks.tryAcquire', names, options, defaultTimes.tryAcquireWaitMs)
  }

  /**
   * Runs `work` with the lock and always releases the lock afterwards. Throws `LockLostError` if `work` finished after
   * the lock was lost, because another holder may have run at the same time.
   *
   * @example
   * const total = await holdfast.locks.with('totals', async ({ signal }) => sum(await rows({ signal })))
   */
  with<T>(names: Lockable | readonly Lockable[], work: (lock: Lock) => Promise<T> | T): Promise<T>
  with<T>(names: Lockable | readonly Lockable[], options: LockOptions, work: (lock: Lock) => Promise<T> | T): Promise<T>
  async with<T>(
    names: Lockable | readonly Lockable[],
    ...rest: OptionsAndWork<LockOptions, (lock: Lock) => Promise<T> | T>
  ): Promise<T> {
    const [options, work] = readWork('locks.with', rest)
    const { database, tracing } = this.#options
    const { tracer } = tracing
    const run = (lock: Lock) => runHolding(new LockFlowHold(lock, database.address, this), () => work(lock))
    if (!tracer) {
      const lock = await this.#acquire('locks.with', names, options)
      return whileHeld(lock, () => run(lock))
    }
    const attributes = { names: this.#inCallersOrder(names), mode: options?.mode ?? 'exclusive' }
    const lock = await tracer.withSpan('lock wait', attributes, () => this.#acquire('locks.with', names, options))
    const held = { ...attributes, fence: lock.fence }
    return whileHeld(lock, () => tracer.withSpan('lock hold', held, () => run(lock)))
  }

  /**
   * Locks names until the caller's own transaction ends. Works through any connection pooler. `client` is a `pg` client
   * that has executed `begin`, or the `sql` object that postgres.js passes to the callback of `begin`. Throws
   * `LockTimeoutError` after `wait`, but the transaction remains usable.
   *
   * @example
   * await client.query('begin')
   * await holdfast.locks.inTransaction(client, `user:${id}`, { wait: '2s' })
   */
  async inTransaction(
    client: CallerTransaction,
    names: Lockable | readonly Lockable[],
    options?: Omit<LockOptions, 'signal'>,
  ): Promise<TransactionLock> {
    const requestedAt = performance.now()
    const lock = await this.#lockInTransaction(
      'locks.inTransaction',
      client,
      names,
      options,
      defaultTimes.acquireWaitMs,
    )
    if (lock) return lock
    throw await this.#timeout(names, performance.now() - requestedAt)
  }

  /** Like `inTransaction`, but does not wait by default. Returns null if the names are not free. */
  tryInTransaction(
    client: CallerTransaction,
    names: Lockable | readonly Lockable[],
    options?: Omit<LockOptions, 'signal'>,
  ): Promise<TransactionLock | null> {
    return this.#lockInTransaction('locks.tryInTransaction', client, names, options, defaultTimes.tryAcquireWaitMs)
  }

  /**
   * Returns the 64-bit key of a name, in decimal. The SQL function `holdfast.lock_key(namespace, name)` returns the
   * same key.
   */
  key(name: string): string {
    return this.#key(name).key
  }

  /**
   * Returns a key made of two 32-bit numbers, independent of the namespace.
   *
   * @example
   * await using lock = await holdfast.locks.acquire(holdfast.locks.pair(7, customerId))
   */
  pair(classId: number, objectId: number): Key {
    return pairKey(classId, objectId)
  }

  /**
   * Opens a key space. Each key is the sum of a random base, which is registered once in the database, and a number
   * that you assign.
   *
   * @example
   * const steps = await holdfast.locks.space('billing-steps')
   * await using lock = await holdfast.locks.acquire(steps.at(3))
   */
  async space(name: string): Promise<KeySpace> {
    const { namespace, database } = this.#options
    const space = checkName(name, 'the key space')
    const randomBase =
      (BigInt.asIntN(64, randomBytes(8).readBigInt64BE()) / BigInt(numbersPerSpace)) * BigInt(numbersPerSpace)
    const [row] = await database.query<{ base: string }>(this.#sql.open_space.text, [
      namespace,
      space,
      randomBase.toString(),
    ])
    return { space, at: (number) => numberedKey(namespace, space, row!.base, number) }
  }

  /** @internal */
  onReleaseRequested(key: string): void {
    for (const watcher of this.#arbiter?.holdOf(key)?.watchers ?? []) watcher.releaseRequested()
  }

  /** @internal Waits up to `withinMs` for the current holders, then requests their release. */
  async drain(withinMs: number): Promise<void> {
    await waitForRelease([...(this.#arbiter?.holds() ?? [])], withinMs, {
      isHeld: (hold) => this.#arbiter!.holdOf(hold.key.key) === hold,
      requestRelease: ({ watchers }, reason) => {
        for (const watcher of watchers) watcher.releaseRequested(reason)
      },
    })
  }

  /** @internal */
  async close(): Promise<void> {
    const reason = this.#calls.close()
    await this.#arbiter?.close(reason)
    await this.#holdRecorder?.close()
  }

  async #acquire(
    where: string,
    names: Lockable | readonly Lockable[],
    options: LockOptions | undefined,
  ): Promise<Lock> {
    const requestedAt = performance.now()
    const lock = await this.#acquireWithin(where, names, options, defaultTimes.acquireWaitMs)
    if (lock) return lock
    throw await this.#timeout(names, performance.now() - requestedAt)
  }

  async #timeout(names: Lockable | readonly Lockable[], waitedMs: number): Promise<LockTimeoutError> {
    const holder = await this.#options.holders.ofNames(this.#keysOf(names).map(({ key }) => key))
    return new LockTimeoutError(this.#label(names), waitedMs, holder)
  }

  async #acquireWithin(
    where: string,
    names: Lockable | readonly Lockable[],
    given: LockOptions | undefined,
    defaultWaitMs: number,
  ): Promise<Lock | null> {
    const { mode = 'exclusive', wait: waitMs = defaultWaitMs, signal } = readOptions(where, given, rules)
    const { events } = this.#options
    const requestedAt = performance.now()
    const keys = this.#keysOf(names)
    this.#calls.throwIfClosed()
    if (!this.#arbiter) throw new SessionLocksUnavailableError('no-anchor')
    signal?.throwIfAborted()
    const reading = keys.filter((key) => isReentrant(key, mode, this)).map(({ key }) => key)
    const acquireOptions = {
      mode,
      waitMs,
      signal,
      reading,
      holding: waitMs > 0 ? keysHeldByFlow(this.#options.database.address) : [],
    }
    this.#holdRecorder!.wake()
    if (waitMs > 0) this.#options.waits.scheduleWrite()
    const holds = await this.#calls.run(
      where,
      () => this.#label(names),
      waitMs > 0,
      () => (keys.length === 1 ? this.#acquireOne(keys[0]!, acquireOptions) : this.#acquireAll(keys, acquireOptions)),
    )
    const labels = keys.length === 1 ? [keys[0]!.label] : this.#inCallersOrder(names)
    const waitedMs = performance.now() - requestedAt
    if (holds === null) {
      events.emitter('lock.refused')?.({ names: labels, keys: keys.map(({ key }) => key), mode, waitedMs })
      return null
    }
    const lock = new Lock(labels, holds, this.#sql.guard, this.#giveBack, events)
    events.emitter('lock.acquired')?.({ names: labels, keys: lock.keys, mode, fence: lock.fence, waitedMs })
    return lock
  }

  async #acquireOne(key: Key, options: AcquireOptions): Promise<Hold[] | null> {
    const hold = await this.#arbiter!.acquire(key, options)
    return hold && [hold]
  }

  /**
   * Acquires all keys or none. Tries all missing keys at the same time. If a key is busy, keeps the keys before it,
   * releases the keys after it, waits for the busy key, and then tries the remaining keys. A waiting call holds only
   * keys that are smaller than the awaited key, so these calls cannot form a cycle.
   */
  async #acquireAll(keys: readonly Key[], options: AcquireOptions): Promise<Hold[] | null> {
    const arbiter = this.#arbiter!
    const until = performance.now() + options.waitMs
    const held: Hold[] = []
    const releaseAll = (holds: readonly Hold[]) => Promise.all(holds.map(this.#giveBack))
    const holding = () => [...options.holding!, ...held.map((hold) => hold.key.key)]
    try {
      for (;;) {
        // A hold that was lost during a wait is requested again, together with all later keys.
        const lostAt = held.findIndex((hold) => !hold.trusted)
        if (lostAt >= 0) await releaseAll(held.splice(lostAt))
        else if (held.length === keys.length) return held
        const missing = keys.slice(held.length)
        const tried = await Promise.allSettled(missing.map((key) => arbiter.acquire(key, { ...options, waitMs: 0 })))
        const holds = tried.map((result) => (result.status === 'fulfilled' ? result.value : null))
        const busyAt = holds.indexOf(null)
        held.push(...(holds.slice(0, busyAt < 0 ? undefined : busyAt) as Hold[]))
        if (busyAt < 0) continue
        await releaseAll(holds.slice(busyAt).filter((hold) => hold !== null))
        const waitMs = until - performance.now()
        const failures = tried.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
        // A waiting call continues to wait during a reconnection.
        const failure = failures.find((reason) => waitMs <= 0 || !(reason instanceof DatabaseUnreachableError))
        if (failure) throw failure
        const hold =
          waitMs > 0 ? await arbiter.acquire(missing[busyAt]!, { ...options, waitMs, holding: holding() }) : null
        if (hold === null) {
          await releaseAll(held)
          return null
        }
        held.push(hold)
      }
    } catch (error) {
      await releaseAll(held)
      throw error
    }
  }

  async #lockInTransaction(
    where: string,
    client: CallerTransaction,
    names: Lockable | readonly Lockable[],
    given: Omit<LockOptions, 'signal'> | undefined,
    defaultWaitMs: number,
  ): Promise<TransactionLock | null> {
    const { signal: _, ...transactionRules } = rules
    const { mode = 'exclusive', wait: waitMs = defaultWaitMs } = readOptions(where, given, transactionRules)
    const tx = executorOf(client)
    const keys = this.#keysOf(names)
    this.#calls.throwIfClosed()
    // Called only for the error that it may throw. A nested reader still needs its own lock, because its transaction
    // is a separate holder.
    for (const key of keys) isReentrant(key, mode, this)
    for (const key of keys) this.#options.names.use(key)
    // This promise is not awaited, because the caller's transaction may hold the pool's last connection.
    const beginGeneration = () => void this.#options.database.query(this.#sql.begin_generation.text).catch(() => {})
    const request = { tx, keys, mode, waitMs, statements: this.#sql, beginGeneration }
    const fence = await lockInTransaction(request).catch(async (error) => {
      throw await withNamesOfDeadlock(error, tx, this.#sql.labels)
    })
    const labels = this.#inCallersOrder(names)
    return fence === null ? null : { name: labels.join(', '), names: labels, mode, fence }
  }

  /** Returns the keys in the order in which every process acquires them. */
  #keysOf(names: Lockable | readonly Lockable[]): Key[] {
    if (!Array.isArray(names)) return [this.#key(names as Lockable)]
    const list = listOf(names) as Lockable[] | undefined
    if (!list?.length) throw new UsageError(`Expected at least one name, got ${describe(names)}`)
    const keys = new Map(list.map((name) => [this.#key(name).key, this.#key(name)]))
    return [...keys.values()].sort((a, b) => (BigInt(a.key) < BigInt(b.key) ? -1 : 1))
  }

  #key(name: Lockable): Key {
    if (typeof name === 'object' && name !== null && 'key' in name) return name
    let key = this.#keys.get(name)
    if (key === undefined) {
      key = hashedKey(this.#options.namespace, checkName(name))
      if (this.#keys.size >= keyCacheSize) this.#keys.clear()
      this.#keys.set(name, key)
    }
    return key
  }

  #inCallersOrder(names: Lockable | readonly Lockable[]): string[] {
    return [names].flat().map((name) => this.#key(name as Lockable).label)
  }

  #label(names: Lockable | readonly Lockable[]): string {
    return this.#inCallersOrder(names).join(', ')
  }
}
