import { randomUUID } from 'node:crypto'
import {
  abortSignal,
  backoffMs,
  ClosedError,
  checkName,
  checkWork,
  type Duration,
  describe,
  duration,
  type Events,
  firstToAbort,
  formatDuration,
  hashedKey,
  type Key,
  keysHeldHere,
  pause,
  readOptions,
  runHolding,
  type Tracing,
  text,
  UsageError,
  unlessAborted,
  whenAborted,
  whileHeld,
} from '../base/index.js'
import {
  type Anchor,
  answerWithinMs,
  type Database,
  DatabaseUnreachableError,
  type Names,
  untilLetGo,
  type Waiting,
  type Waits,
} from '../postgres/index.js'
import { LeaseLostError, LeaseTimeoutError } from './errors.js'
import { Holding } from './holding.js'
import { type Keeping, Lease, ttlRule } from './lease.js'
import { type Answer, type Ask, Ledger, type Release } from './ledger.js'
import { idOf, Renewals } from './renewals.js'

export interface LeaseOptions {
  /** How long it lasts without a renewal, and so how long a dead holder keeps the name. From 1 s; default 30 s. */
  ttl?: Duration | undefined
  /** How long the name stays taken at least, counted from the grant, also when the work was done before. Default 0. */
  hold?: Duration | undefined
  /** How long to wait for a name that is taken. `acquire` and `with` wait without limit unless told, `tryAcquire` not at all. */
  wait?: Duration | undefined
  /** Competes only after a random time of up to this, so that not one instance wins everything. Default 0. */
  spread?: Duration | undefined
  /** Known from an earlier acquisition (`lease.token`): whoever has it acquires again what it holds already. */
  token?: string | undefined
  /** Gives up when it aborts. A lease that is granted after that is given back. */
  signal?: AbortSignal | undefined
}

export interface LeasesOptions {
  readonly database: Database
  /** Connections for renewals, where there is no anchor. */
  readonly lifeline: Database
  readonly anchor: Anchor | undefined
  readonly names: Names
  readonly schema: string
  readonly namespace: string
  readonly instanceId: string
  readonly events: Events
  readonly tracing: Tracing
  /** Where long waits are written down. */
  readonly waits: Waits
}

const longest = 24 * 86_400_000
const rules = {
  ttl: ttlRule,
  hold: duration(0, longest),
  wait: duration(0, longest),
  spread: duration(0, longest),
  token: text,
  signal: abortSignal,
}

interface Wait extends Waiting {
  /** Why it is over. */
  failure: unknown
}

/** An answer may take this long also where the name itself is waited for less. */
const leastPatienceMs = 1_000

/**
 * Leases: rows that expire on the database's clock. They ask for no session, so they work through any pooler; a dead
 * holder keeps the name until its time is over.
 *
 * @example
 * await holdfast.leases.with('etl', { ttl: '1m', hold: '10m' }, async ({ signal, fence }) => {
 *   await load({ signal, fence })
 * })
 */
export class Leases {
  readonly #options: LeasesOptions
  readonly #ledger: Ledger
  readonly #renewals: Renewals
  /** Those who wait for a name, to be woken when it is released. */
  readonly #sleepers = new Map<string, Set<() => void>>()
  /** The calls that wait, to be written down when they do so for long. */
  readonly #waiting = new Set<Waiting>()
  readonly #keeping: Keeping
  /** What may have been granted to nobody, and is being given back. */
  readonly #chases = new Set<Promise<void>>()
  /** One thing at a time for one token: a release under way must not strike what the same token acquires behind it. */
  readonly #underWay = new Map<string, Promise<void>>()
  readonly #closing = new AbortController()

  /** @internal */
  constructor(options: LeasesOptions) {
    this.#options = options
    this.#ledger = new Ledger(options)
    this.#renewals = new Renewals(options.lifeline, options.anchor, this.#ledger.sql.renew_leases)
    this.#keeping = {
      guard: this.#ledger.sql.guard,
      events: options.events,
      extend: (holding, ttlMs) => this.#renewals.extend(holding, ttlMs),
      giveBack: (holding) => this.#giveBack(holding),
    }
    options.waits.watch(() => this.#waiting)
  }

  /**
   * Takes a name. Waits without limit unless `wait` is given; then throws `LeaseTimeoutError` when it is over.
   *
   * @example
   * await using lease = await holdfast.leases.acquire('etl', { ttl: '30s', wait: '5m' })
   */
  async acquire(name: string, options?: LeaseOptions): Promise<Lease> {
    const askedAt = performance.now()
    const lease = await this.#take('leases.acquire', name, options, Number.POSITIVE_INFINITY)
    if (lease) return lease
    throw new LeaseTimeoutError(name, performance.now() - askedAt)
  }

  /**
   * Takes a name if it is free, or becomes free within `wait` if that is given; null when it is not.
   *
   * @example
   * await using lease = await holdfast.leases.tryAcquire('cleanup', { ttl: '5m', hold: '1h', spread: '2s' })
   * if (lease === null) return // another instance does it, or has done it within the hour
   */
  tryAcquire(name: string, options?: LeaseOptions): Promise<Lease | null> {
    return this.#take('leases.tryAcquire', name, options, 0)
  }

  /**
   * Runs `work` while the name is leased, and gives it back whatever happens. Throws `LeaseLostError` after work that
   * went to its end although the lease had been lost meanwhile: it may not have been alone.
   *
   * @example
   * await holdfast.leases.with('etl', async ({ signal }) => load({ signal }))
   */
  with<T>(name: string, work: (lease: Lease) => Promise<T> | T): Promise<T>
  with<T>(name: string, options: LeaseOptions, work: (lease: Lease) => Promise<T> | T): Promise<T>
  async with<T>(
    name: string,
    ...rest: [(lease: Lease) => Promise<T> | T] | [LeaseOptions, (lease: Lease) => Promise<T> | T]
  ): Promise<T> {
    const [options, work] = rest.length === 1 ? [undefined, rest[0]] : rest
    checkWork('leases.with', work)
    const { database, tracing } = this.#options
    const { tracer } = tracing
    const lease = await (tracer
      ? tracer.around('lease wait', { name }, () => this.acquire(name, options))
      : this.acquire(name, options))
    const { fence } = lease
    const held = { handle: lease, keys: [this.#key(name).key], address: database.address }
    const run = () => runHolding(held, () => work(lease))
    return whileHeld(lease, () => (tracer ? tracer.around('lease hold', { name, fence }, run) : run()))
  }

  /**
   * Gives back a lease that is known by its token alone, from another process for example. False when the token is not
   * the holder's (any more): then nothing has changed.
   *
   * @example
   * const released = await holdfast.leases.release('etl', token)
   */
  async release(name: string, token: string): Promise<boolean> {
    const { key } = this.#key(name)
    if (typeof token !== 'string' || token === '') {
      throw new UsageError(`Expected the token to be that of a lease, got ${describe(token)}`)
    }
    const holding = this.#renewals.find(key, token)
    if (holding) {
      this.#renewals.remove(holding)
      holding.lose(new ClosedError('the handle, released by its token,'))
    }
    const releasing = this.#ledger.release({ key, token, fence: null })
    this.#mark(idOf(key, token), releasing)
    const released = await releasing
    if (released) this.released(key)
    return released
  }

  /** @internal Somebody has released a name that we may wait for. */
  released(key: string): void {
    for (const wake of [...(this.#sleepers.get(key) ?? [])]) wake()
  }

  /** @internal An operator has expired a lease that we may hold: we look at once, not at the next renewal. */
  expired(key: string): void {
    const holdings = [...this.#renewals].filter((holding) => holding.key.key === key)
    if (holdings.length > 0) void this.#renewals.renewNow(holdings).catch(() => {})
  }

  /** @internal What is held now may be kept for so long; then its holders are asked to let go. */
  async drain(withinMs: number): Promise<void> {
    await untilLetGo([...this.#renewals], withinMs, {
      isHeld: (holding) => this.#renewals.find(holding.key.key, holding.token) === holding,
      ask: ({ watchers }, reason) => {
        for (const watcher of watchers) watcher.releaseRequested(reason)
      },
    })
  }

  /** @internal */
  async close(): Promise<void> {
    const reason = new ClosedError('This instance')
    this.#closing.abort(reason)
    const holdings = [...this.#renewals]
    for (const holding of holdings) {
      holding.lose(reason)
      this.#renewals.remove(holding)
    }
    // By then all who were asking have given up, and what they may still be granted is being chased.
    await new Promise(setImmediate)
    const over = new AbortController()
    const released = Promise.all([...holdings.map((holding) => this.#releaseSurely(holding)), ...this.#chases])
    // A pool that the program has used up must not keep it from ending: what is left expires.
    await Promise.race([released, pause(answerWithinMs, over.signal)])
    over.abort()
  }

  async #take(
    where: string,
    name: string,
    given: LeaseOptions | undefined,
    defaultWaitMs: number,
  ): Promise<Lease | null> {
    const options = readOptions(where, given, rules)
    const { wait: waitMs = defaultWaitMs, ttl = 30_000, hold = 0, spread = 0, token, signal } = options
    const key = this.#key(name)
    const ask = {
      key,
      token: token ?? randomUUID(),
      ttlMs: Math.ceil(ttl),
      holdMs: Math.ceil(hold),
      isShared: token !== undefined,
    }
    const { names, events } = this.#options
    names.check(key)
    const askedAt = performance.now()
    const giveUp = firstToAbort(this.#closing.signal, signal)
    try {
      giveUp.signal.throwIfAborted()
      if (spread > 0) await pause(Math.random() * spread, giveUp.signal)
      const lease = await this.#compete(ask, waitMs, giveUp.signal)
      const waitedMs = performance.now() - askedAt
      if (lease) events.to('lease.acquired')?.({ name, key: key.key, fence: lease.fence, waitedMs })
      else events.to('lease.busy')?.({ name, key: key.key, waitedMs })
      return lease
    } finally {
      giveUp.forget()
    }
  }

  async #compete(ask: Ask, waitMs: number, giveUp: AbortSignal): Promise<Lease | null> {
    const wait = this.#wait(ask.key)
    try {
      return await this.#competeFor(ask, waitMs, wait, giveUp)
    } finally {
      this.#waiting.delete(wait)
      this.#options.waits.over(wait)
    }
  }

  async #competeFor(ask: Ask, waitMs: number, wait: Wait, giveUp: AbortSignal): Promise<Lease | null> {
    const until = performance.now() + waitMs
    const id = idOf(ask.key.key, ask.token)
    for (let attempt = 0; ; attempt++) {
      giveUp.throwIfAborted()
      if (wait.failure) throw wait.failure
      let answer: Answer | undefined
      try {
        const leftMs = until - performance.now()
        for (let before = this.#underWay.get(id); before; before = this.#underWay.get(id)) {
          await unlessAborted(giveUp, before)
        }
        const entering = this.#enter(ask, waitMs === 0 ? answerWithinMs : Math.max(leftMs, leastPatienceMs), giveUp)
        if (ask.isShared) this.#mark(id, entering)
        const outcome = await entering
        if (outcome instanceof Lease) return outcome
        answer = outcome
      } catch (error) {
        // Whoever waits goes on waiting, also for the database.
        if (!(error instanceof DatabaseUnreachableError) || performance.now() >= until) throw error
      }
      const leftMs = until - performance.now()
      if (leftMs <= 0 && answer && !answer.settled) throw unsettled()
      if (leftMs <= 0) return null
      this.#waiting.add(wait)
      this.#options.waits.began(wait)
      this.#options.waits.wake()
      await this.#sleep(ask.key.key, answer, attempt, leftMs, giveUp)
    }
  }

  #wait(key: Key): Wait {
    const { database } = this.#options
    const wait: Wait = {
      kind: 'lease',
      key,
      ask: { holding: keysHeldHere(database.address) },
      askedAt: performance.now(),
      failure: undefined,
      fail: (error) => {
        wait.failure = error
        this.released(key.key)
      },
    }
    return wait
  }

  /** One try: the lease, or why not. */
  async #enter(ask: Ask, patienceMs: number, giveUp: AbortSignal): Promise<Lease | Answer> {
    const own = this.#renewals.find(ask.key.key, ask.token)
    if (own) {
      const lease = new Lease(own, this.#keeping)
      try {
        await unlessAborted(giveUp, lease.extend(Math.max(ask.ttlMs, own.ttlMs)))
        return lease
      } catch (error) {
        await lease.release()
        if (!(error instanceof LeaseLostError)) throw error
      }
    }
    const answer = await this.#askOnce(ask, patienceMs, giveUp)
    return answer.fence === null ? answer : this.#granted(ask, answer.fence, answer.sentAt)
  }

  /** One decision of the database. What is granted after the caller has given up is given back. */
  async #askOnce(ask: Ask, patienceMs: number, giveUp: AbortSignal): Promise<Answer> {
    const acquiring = this.#ledger.acquire(ask)
    const asking = Promise.all([acquiring, this.#ledger.register(ask.key)])
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      const reason = `No answer came within ${formatDuration(patienceMs)}`
      if (patienceMs <= longest) timer = setTimeout(() => reject(new DatabaseUnreachableError(reason)), patienceMs)
    })
    try {
      const [answer] = await unlessAborted(giveUp, Promise.race([asking, late]))
      return answer
    } catch (error) {
      // Granted late, or perhaps granted without our having heard of it, or granted for a key that is another's.
      // Released only when it has been decided: a release that overtook the acquisition would find nothing.
      const chase = acquiring.then(
        (answer) => (answer.fence === null ? undefined : this.#releaseSurely({ ...ask, fence: answer.fence })),
        () => this.#releaseSurely({ ...ask, fence: null }),
      )
      this.#chases.add(chase)
      this.#mark(idOf(ask.key.key, ask.token), chase)
      void chase.finally(() => this.#chases.delete(chase))
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  #granted({ key, token, ttlMs }: Ask, fence: number, sentAt: number): Lease {
    const holding = new Holding(key, token, fence, ttlMs, sentAt)
    this.#renewals.add(holding)
    this.#ledger.sweepSometimes()
    return new Lease(holding, this.#keeping)
  }

  async #giveBack(holding: Holding): Promise<void> {
    if (holding.watchers.size > 0) return
    this.#renewals.remove(holding)
    await this.#releaseSurely(holding)
  }

  /** Until it is released, or its time is over anyway. */
  #releaseSurely({ key, token, fence, ttlMs }: Omit<Release, 'key'> & Pick<Ask, 'key' | 'ttlMs'>): Promise<void> {
    const releasing = this.#tryToRelease({ key: key.key, token, fence }, performance.now() + ttlMs)
    this.#mark(idOf(key.key, token), releasing)
    return releasing
  }

  async #tryToRelease(release: Release, until: number): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#ledger.release(release)
        this.released(release.key)
        return
      } catch {
        const pauseMs = backoffMs(attempt, 50, 2_000)
        if (this.#closing.signal.aborted || performance.now() + pauseMs > until) return
        await pause(pauseMs, this.#closing.signal)
      }
    }
  }

  #mark(id: string, work: Promise<unknown>): void {
    const over = Promise.allSettled([work, this.#underWay.get(id)]).then(() => {
      if (this.#underWay.get(id) === over) this.#underWay.delete(id)
    })
    this.#underWay.set(id, over)
  }

  /** Until the name is released, as far as we are told, or it is worth another look. */
  async #sleep(
    key: string,
    answer: Answer | undefined,
    attempt: number,
    leftMs: number,
    giveUp: AbortSignal,
  ): Promise<void> {
    // Without an anchor nobody tells us.
    const mostMs = this.#options.anchor ? 1_000 : 250
    const { freeInMs = null, settled = true, wanted = false, fence } = answer ?? {}
    const freeSoonMs = freeInMs !== null && freeInMs > 0 ? freeInMs + 1 : Number.POSITIVE_INFINITY
    const pauseMs = Math.min(leftMs, freeSoonMs, backoffMs(attempt, 20, mostMs))
    if (this.#options.anchor && fence === null && settled && !wanted) void this.#ledger.want(key).catch(() => {})
    const sleepers = this.#sleepers.get(key) ?? new Set()
    this.#sleepers.set(key, sleepers)
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        forget()
        sleepers.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, pauseMs)
      sleepers.add(wake)
      const forget = whenAborted(giveUp, () => setImmediate(wake))
    })
    if (sleepers.size === 0 && this.#sleepers.get(key) === sleepers) this.#sleepers.delete(key)
  }

  #key(name: string): Key {
    return hashedKey(this.#options.namespace, checkName(name))
  }
}

function unsettled(): DatabaseUnreachableError {
  return new DatabaseUnreachableError(
    'The server has restarted, and somebody may still believe in what was held before',
  )
}
