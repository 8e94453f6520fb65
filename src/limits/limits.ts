import {
  abortSignal,
  backoffMs,
  Calls,
  checkName,
  checkWork,
  combineSignals,
  type Duration,
  defaultTimes,
  duration,
  type Events,
  hashedKey,
  type Key,
  maxTimerMs,
  orAborted,
  pause,
  readOptions,
  runHolding,
  type TracerSlot,
  UsageError,
  whileHeld,
  wholeNumber,
} from '../base/index.js'
import { type Database, type HolderLookup, type Presence, type WaitTracker, waitForRelease } from '../postgres/index.js'
import { PermitAcquirer } from './acquirer.js'
import { EpochDependents } from './epoch-dependents.js'
import { LimitReachedError, LimitResetError } from './errors.js'
import { Permit } from './permit.js'
import { PermitBatcher, type PermitRequest, type Refusal } from './permit-batcher.js'
import { intervalNsOf, type Rate, rateRule } from './rate.js'
import { RateBatcher } from './rate-batcher.js'
import { LimitStore } from './store.js'
import { Waitlist } from './waitlist.js'

export interface LimitOptions {
  /** Maximum total weight of the permits in use at the same time. Each request is decided with its own `max`. */
  max: number
  /** Number of the limit's units that this permit uses. Default 1. */
  weight?: number | undefined
  /** Maximum time to wait in the FIFO queue. Default 0 (no waiting). */
  wait?: Duration | undefined
  /** Signal that aborts the request. If the permit is granted after that, the permit is released. */
  signal?: AbortSignal | undefined
}

export interface ConsumeOptions {
  /** Number of uses in a period: `'100/min'`, `'5/s'`, `'1000/h'`, `'1/d'` or `{ count: 3, per: '10s' }`. */
  rate: Rate
  /** Maximum number of uses at the same time after an idle period. Default: the count of the rate. */
  burst?: number | undefined
  /** Number of uses that this call spends. Default 1. */
  cost?: number | undefined
  /**
   * Maximum time to wait. If the uses become available within this time, the call reserves them and sleeps until then.
   * Default 0 (no waiting).
   */
  wait?: Duration | undefined
  /** Signal that aborts the sleep. The reserved uses remain spent. */
  signal?: AbortSignal | undefined
}

/**
 * Outcome of `consume`. An allowed outcome contains the number of further uses that are available now. A refused
 * outcome contains the time until a retry is allowed, if no other request is allowed first.
 */
export type RateOutcome =
  | { readonly allowed: true; readonly remaining: number }
  | { readonly allowed: false; readonly retryAfterMs: number }

/** Holder of a permit, or caller that is waiting for a permit. */
export interface PermitUser {
  /** ID of the instance. */
  readonly instance: string
  /** Name of the instance. Undefined if the instance is no longer known. */
  readonly instanceName: string | undefined
  readonly host: string | undefined
  readonly pid: number | undefined
  readonly weight: number
  /** The limit's maximum, as given by this holder or waiter. */
  readonly max: number
  /** Time of the grant, or start of the wait, on the database's clock. */
  readonly since: Date
}

export interface LimitUsage {
  readonly name: string
  /** Sum of the weights of all permits in use. */
  readonly inUse: number
  readonly holders: readonly (PermitUser & { readonly fence: number })[]
  /** Waiters in queue order. */
  readonly waiters: readonly PermitUser[]
}

export interface LimitsOptions {
  readonly database: Database
  readonly presence: Presence
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  readonly events: Events
  readonly tracing: TracerSlot
  readonly waits: WaitTracker
  readonly holders: HolderLookup
}

const maxCount = 1_000_000_000

const limitRules = {
  max: wholeNumber(1, maxCount),
  weight: wholeNumber(1, maxCount),
  wait: duration(0, maxTimerMs),
  signal: abortSignal,
}
const consumeRules = {
  rate: rateRule,
  burst: wholeNumber(1, maxCount),
  cost: wholeNumber(1, maxCount),
  wait: duration(0, maxTimerMs),
  signal: abortSignal,
}

const keyCacheSize = 10_000
const maxChecked = 500

/**
 * Provides concurrency limits (distributed semaphores) and rate limits for named entities. The limits are exact across
 * all instances. A permit becomes free when its holder is no longer present.
 *
 * @example
 * await holdfast.limits.with(`export:${userId}`, { max: 1 }, async ({ signal }) => makeExport({ signal }))
 * const outcome = await holdfast.limits.consume(`api:${key}`, { rate: '100/min', burst: 20 })
 */
export class Limits {
  readonly #options: LimitsOptions
  readonly #store: LimitStore
  readonly #permitBatcher: PermitBatcher
  readonly #rateBatcher: RateBatcher
  readonly #dependents = new EpochDependents()
  readonly #waitlist: Waitlist
  readonly #acquirer: PermitAcquirer
  readonly #keys = new Map<string, Key>()
  readonly #permits = new Set<Permit>()
  /** Calls and releases in progress. `close` waits for them. */
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #calls = new Calls()
  readonly #releasePermit = (permit: Permit, request: PermitRequest) => {
    this.#permits.delete(permit)
    this.#dependents.delete(request.epoch, permit)
    return this.#track(this.#permitBatcher.sendReliably('release', request))
  }

  /** @internal */
  constructor(options: LimitsOptions) {
    this.#options = options
    this.#store = new LimitStore(options)
    this.#waitlist = new Waitlist(this.#store, this.#dependents, options.waits)
    this.#rateBatcher = new RateBatcher(this.#store)
    options.presence.onRevocation(() => void this.#checkHeld([...this.#permits]))
    this.#permitBatcher = new PermitBatcher(this.#store, options.presence.instanceId, (token, fence) =>
      this.#waitlist.onGranted(token, fence),
    )
    this.#acquirer = new PermitAcquirer({
      ...options,
      batcher: this.#permitBatcher,
      waitlist: this.#waitlist,
      closing: this.#calls.closing,
      newPermit: (request, fence) => this.#newPermit(request, fence),
      track: (promise) => this.#track(promise),
    })
  }

  /**
   * Acquires a permit. If the limit has no room, throws `LimitReachedError` immediately, or after `wait`.
   *
   * @example
   * await using permit = await holdfast.limits.acquire('gpu', { max: 8, weight: 2, wait: '30s' })
   */
  async acquire(name: string, options: LimitOptions): Promise<Permit> {
    return this.#acquireOrThrow('limits.acquire', name, options)
  }

  /**
   * Acquires a permit if the limit has room now, or within `wait`. Returns null otherwise.
   *
   * @example
   * await using permit = await holdfast.limits.tryAcquire('gpu', { max: 8 })
   * if (permit === null) return
   */
  async tryAcquire(name: string, options: LimitOptions): Promise<Permit | null> {
    const outcome = await this.#acquire('limits.tryAcquire', name, options)
    return outcome instanceof Permit ? outcome : null
  }

  /**
   * Runs `work` with a permit and always releases the permit afterwards. Throws `LimitReachedError` without running
   * `work` if the limit has no room, and `PermitLostError` if `work` finished after the permit was lost.
   *
   * @example
   * await holdfast.limits.with(`export:${userId}`, { max: 1 }, async ({ signal }) => makeExport({ signal }))
   */
  async with<T>(name: string, options: LimitOptions, work: (permit: Permit) => Promise<T> | T): Promise<T> {
    checkWork('limits.with', work)
    const { database, tracing } = this.#options
    const { tracer } = tracing
    const acquire = () => this.#acquireOrThrow('limits.with', name, options)
    const permit = await (tracer ? tracer.withSpan('limit wait', { name }, acquire) : acquire())
    const { fence } = permit
    const held = { handle: permit, keys: [this.#key('limit', name).key], address: database.address }
    const run = () => runHolding(held, () => work(permit))
    return whileHeld(permit, () => (tracer ? tracer.withSpan('limit hold', { name, fence }, run) : run()))
  }

  /**
   * Spends uses of a rate limit. A refusal is a return value, not an error. After `retryAfterMs`, a retry is allowed
   * unless another request was allowed first.
   *
   * @example
   * const outcome = await holdfast.limits.consume(`api:${key}`, { rate: '100/min', burst: 20 })
   * if (!outcome.allowed) return tooManyRequests({ retryAfterMs: outcome.retryAfterMs })
   */
  async consume(name: string, options: ConsumeOptions): Promise<RateOutcome> {
    const {
      rate,
      burst: given,
      cost = 1,
      wait = defaultTimes.rateWaitMs,
      signal,
    } = readOptions('limits.consume', options, consumeRules)
    if (rate === undefined) throw new UsageError(`Expected rate to be ${rateRule.expected}, got undefined`)
    const burst = given ?? rate.count
    const each = intervalNsOf(rate, burst)
    if (cost > burst) {
      throw new UsageError(`Expected cost to be at most the burst of ${burst}, got ${cost}, which can never be allowed`)
    }
    const key = this.#key('rate', name)
    this.#calls.throwIfClosed()
    signal?.throwIfAborted()
    const waitNs = Math.floor(wait * 1e6)
    const spend = async () => {
      const spent = this.#track(this.#rateBatcher.add({ key, name, intervalNs: each, burst, cost, waitNs }))
      const { verdict, afterMs, remaining } = await orAborted(signal, spent)
      if (verdict === 'allowed' && afterMs > 0) await this.#sleep(afterMs, signal)
      return { allowed: verdict === 'allowed', afterMs, remaining }
    }
    const { allowed, afterMs, remaining } = await this.#calls.run('limits.consume', () => name, wait > 0, spend)
    if (allowed) return { allowed, remaining }
    this.#options.events.emitter('rate.refused')?.({ name, cost, retryAfterMs: afterMs })
    return { allowed, retryAfterMs: afterMs }
  }

  /**
   * Returns a limit's current holders and waiters, for display. The result may already be outdated when it
   * arrives.
   */
  async usage(name: string): Promise<LimitUsage> {
    const { key } = this.#key('limit', name)
    const rows = await this.#store.run<{
      instance: string
      instance_name: string | null
      host: string | null
      os_pid: number | null
      weight: number
      max: number
      fence: string | null
      since_ms: number
    }>(this.#store.sql.usage, [key])
    const users = rows.map(({ instance, instance_name, host, os_pid, weight, max, fence, since_ms }) => ({
      user: {
        instance,
        instanceName: instance_name ?? undefined,
        host: host ?? undefined,
        pid: os_pid ?? undefined,
        weight,
        max,
        since: new Date(since_ms),
      },
      fence,
    }))
    const holders = users.flatMap(({ user, fence }) => (fence === null ? [] : [{ ...user, fence: Number(fence) }]))
    return {
      name,
      inUse: holders.reduce((sum, { weight }) => sum + weight, 0),
      holders,
      waiters: users.flatMap(({ user, fence }) => (fence === null ? [user] : [])),
    }
  }

  /** @internal */
  onGranted(instanceId: string, token: string): void {
    if (instanceId === this.#options.presence.instanceId) this.#waitlist.onGrantNotified(token)
  }

  /** @internal */
  onReset(key: string): void {
    void this.#checkHeld([...this.#permits].filter(({ request }) => request.key.key === key))
  }

  /** @internal Waits up to `withinMs` for the current holders, then requests their release. */
  async drain(withinMs: number): Promise<void> {
    await waitForRelease([...this.#permits], withinMs, {
      isHeld: (permit) => permit.held,
      requestRelease: (permit, reason) => permit.onReleaseRequested(reason),
    })
  }

  /** @internal */
  async close(): Promise<void> {
    const reason = this.#calls.close()
    for (const permit of [...this.#permits]) {
      permit.onLost(reason)
      void permit.release()
    }
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay)
    await this.#store.close()
  }

  /** Marks permits that are no longer in the database as lost. Retries until the check succeeds. */
  async #checkHeld(permits: readonly Permit[]): Promise<void> {
    for (let at = 0; at < permits.length; at += maxChecked) {
      const some = permits.slice(at, at + maxChecked)
      for (let attempt = 0; some.some(({ held }) => held) && !this.#calls.closing.aborted; attempt++) {
        const gone = await this.#waitlist.missing(some.map(({ request }) => request)).catch(() => undefined)
        for (const ordinal of gone ?? []) some[ordinal]!.onLost(new LimitResetError())
        if (gone) break
        await pause(backoffMs(attempt, 50, 1_000), this.#calls.closing)
      }
    }
  }

  async #acquireOrThrow(where: string, name: string, options: LimitOptions): Promise<Permit> {
    const outcome = await this.#acquire(where, name, options)
    if (outcome instanceof Permit) return outcome
    const holder = await this.#options.holders.ofLimit(this.#key('limit', name).key, outcome.since)
    throw new LimitReachedError(name, outcome, holder)
  }

  async #acquire(where: string, name: string, given: LimitOptions): Promise<Permit | Refusal> {
    const options = readOptions(where, given, limitRules)
    const { max, weight = 1, wait: waitMs = defaultTimes.limitWaitMs, signal } = options
    if (max === undefined) throw new UsageError(`Expected max to be ${limitRules.max.expected}, got undefined`)
    if (weight > max) {
      throw new UsageError(`Expected weight to be at most the max of ${max}, got ${weight}, which can never be granted`)
    }
    const key = this.#key('limit', name)
    this.#calls.throwIfClosed()
    signal?.throwIfAborted()
    const acquireOptions = { key, name, max, weight, waitMs, signal }
    return this.#calls.run(
      where,
      () => name,
      waitMs > 0,
      () => this.#acquirer.acquire(acquireOptions),
    )
  }

  #newPermit(request: PermitRequest, fence: number): Permit {
    const permit = new Permit(request, fence, this.#releasePermit, this.#options.events)
    this.#permits.add(permit)
    this.#dependents.add(request.epoch, permit)
    return permit
  }

  async #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const giveUp = combineSignals(this.#calls.closing, signal)
    // Adds 1 ms, because Node.js timers may fire up to 1 ms early.
    await pause(ms + 1, giveUp.signal)
    giveUp.forget()
    giveUp.signal.throwIfAborted()
  }

  #track<T>(promise: Promise<T>): Promise<T> {
    this.#underWay.add(promise)
    const done = () => this.#underWay.delete(promise)
    promise.then(done, done)
    return promise
  }

  /** The label contains the kind, so that a limit, a rate and a lock with the same name have different keys. */
  #key(kind: 'limit' | 'rate', name: string): Key {
    const label = `${kind}/${checkName(name)}`
    let key = this.#keys.get(label)
    if (key === undefined) {
      key = hashedKey(this.#options.namespace, label)
      if (this.#keys.size >= keyCacheSize) this.#keys.clear()
      this.#keys.set(label, key)
    }
    return key
  }
}
