import {
  backoffMs,
  formatDuration,
  type Key,
  keysHeldByFlow,
  maxTimerMs,
  orAborted,
  resultWithin,
  whenAborted,
} from '../base/index.js'
import {
  type Database,
  DatabaseUnreachableError,
  responseTimeoutMs,
  type WaitingCall,
  type WaitTracker,
} from '../postgres/index.js'
import { LeaseLostError } from './errors.js'
import { Lease, type LeaseOperations } from './lease.js'
import { LeaseHold } from './lease-hold.js'
import type { LeaseReleaser } from './releaser.js'
import { holdIdOf, type Renewals } from './renewals.js'
import type { AcquireResult, LeaseRequest, LeaseStore } from './store.js'

export interface LeaseAcquirerOptions {
  readonly database: Database
  readonly store: LeaseStore
  readonly renewals: Renewals
  readonly releaser: LeaseReleaser
  readonly operations: LeaseOperations
  /** Whether this instance receives notifications. */
  readonly hasNotifications: boolean
  readonly waits: WaitTracker
}

interface LeaseWait extends WaitingCall {
  /** Error that ends the wait. */
  failure: unknown
}

/** Minimum time to wait for a response, even if `wait` is shorter. */
const minResponseWaitMs = 1_000

/** Acquires leases, and retries while another holder has the name. */
export class LeaseAcquirer {
  /** Callbacks that wake up the calls that are waiting for a key. */
  readonly #wakers = new Map<string, Set<() => void>>()
  /** Calls that are waiting for a lease. Long waits are recorded in the database. */
  readonly #waits = new Set<WaitingCall>()
  /** Releases that run in the background, for leases whose caller gave up. */
  readonly #releases = new Set<Promise<void>>()

  constructor(readonly options: LeaseAcquirerOptions) {
    options.waits.addSource(() => this.#waits)
  }

  /** Returns null if another holder still has the name when the wait ends. */
  async acquire(request: LeaseRequest, waitMs: number, giveUp: AbortSignal): Promise<Lease | null> {
    const wait = this.#newWait(request.key, waitMs)
    try {
      return await this.#acquireWithRetries(request, waitMs, wait, giveUp)
    } finally {
      this.#waits.delete(wait)
      this.options.waits.waitEnded(wait)
    }
  }

  onReleased(key: string): void {
    for (const wake of [...(this.#wakers.get(key) ?? [])]) wake()
  }

  /** Resolves when all background releases have finished. */
  async settled(): Promise<void> {
    await Promise.all(this.#releases)
  }

  async #acquireWithRetries(
    request: LeaseRequest,
    waitMs: number,
    wait: LeaseWait,
    giveUp: AbortSignal,
  ): Promise<Lease | null> {
    const { releaser, waits } = this.options
    const until = performance.now() + waitMs
    const id = holdIdOf(request.key.key, request.token)
    let failure: DatabaseUnreachableError | undefined
    for (let attempt = 0; ; attempt++) {
      giveUp.throwIfAborted()
      if (wait.failure) throw wait.failure
      let result: AcquireResult | undefined
      try {
        const maxResponseMs = waitMs === 0 ? responseTimeoutMs : Math.max(until - performance.now(), minResponseWaitMs)
        const pendingUntil = performance.now() + maxResponseMs
        for (let pending = releaser.pending(id); pending; pending = releaser.pending(id)) {
          if (!(await settledBefore(pendingUntil, pending, giveUp))) throw failure ?? pendingError()
        }
        const attempted = this.#tryOnce(request, maxResponseMs, giveUp)
        if (request.hasGivenToken) releaser.track(id, attempted)
        const outcome = await attempted
        if (outcome instanceof Lease) return outcome
        result = outcome
      } catch (error) {
        // If the database is unreachable, a waiting call keeps waiting until the database is available again.
        if (!(error instanceof DatabaseUnreachableError) || performance.now() >= until) throw error
        failure = error
      }
      const leftMs = until - performance.now()
      if (leftMs <= 0 && result && !result.graceOver) throw inGraceError()
      if (leftMs <= 0) return null
      this.#waits.add(wait)
      waits.waitStarted(wait)
      waits.scheduleWrite()
      await this.#waitForRelease(request.key.key, result, attempt, leftMs, giveUp)
    }
  }

  #newWait(key: Key, waitMs: number): LeaseWait {
    const wait: LeaseWait = {
      kind: 'lease',
      key,
      request: { holding: waitMs > 0 ? keysHeldByFlow(this.options.database.address) : [] },
      requestedAt: performance.now(),
      failure: undefined,
      fail: (error) => {
        wait.failure = error
        this.onReleased(key.key)
      },
    }
    return wait
  }

  /** Returns the lease if it was granted. Otherwise, returns the result of the attempt. */
  async #tryOnce(request: LeaseRequest, maxResponseMs: number, giveUp: AbortSignal): Promise<Lease | AcquireResult> {
    const { renewals, operations } = this.options
    const held = renewals.find(request.key.key, request.token)
    if (held) {
      const lease = new Lease(held, operations)
      try {
        await orAborted(giveUp, lease.extend(Math.max(request.ttlMs, held.ttlMs)))
        return lease
      } catch (error) {
        await lease.release()
        if (!(error instanceof LeaseLostError)) throw error
      }
    }
    const result = await this.#requestOnce(request, maxResponseMs, giveUp)
    return result.fence === null ? result : this.#onGranted(request, result.fence, result.sentAt)
  }

  /** Sends one request. If the lease is granted after the caller gave up, the lease is released. */
  async #requestOnce(request: LeaseRequest, maxResponseMs: number, giveUp: AbortSignal): Promise<AcquireResult> {
    const { store, releaser } = this.options
    const acquiring = store.acquire(request)
    try {
      const result = await orAborted(giveUp, resultWithin(Math.min(maxResponseMs, maxTimerMs), acquiring))
      if (result) return result
      throw new DatabaseUnreachableError(`No response arrived within ${formatDuration(maxResponseMs)}`)
    } catch (error) {
      // The lease may have been granted: the response was late or lost. The release is sent after the acquire has been
      // decided, because a release that arrives first would find nothing. The release affects only the grant to this
      // request, because an earlier grant to the token belongs to another caller. If the response was lost and the
      // caller provided the token, the lease is left to expire.
      const release = acquiring.then(
        ({ isFresh, fence }) => (isFresh ? releaser.releaseReliably({ ...request, fence }) : undefined),
        () => (request.hasGivenToken ? undefined : releaser.releaseReliably({ ...request, fence: null })),
      )
      this.#releases.add(release)
      releaser.track(holdIdOf(request.key.key, request.token), release)
      void release.finally(() => this.#releases.delete(release))
      throw error
    }
  }

  #onGranted({ key, token, ttlMs }: LeaseRequest, fence: number, sentAt: number): Lease {
    const { renewals, store, operations } = this.options
    const holding = new LeaseHold(key, token, fence, ttlMs, sentAt)
    renewals.add(holding)
    store.sweepSometimes()
    return new Lease(holding, operations)
  }

  /** Waits until a notification about the release arrives or the next attempt is due. */
  async #waitForRelease(
    key: string,
    result: AcquireResult | undefined,
    attempt: number,
    leftMs: number,
    giveUp: AbortSignal,
  ): Promise<void> {
    const { hasNotifications, store } = this.options
    const maxPauseMs = hasNotifications ? 1_000 : 250
    const { freeInMs = null, graceOver = true, hasWaiters = false, fence } = result ?? {}
    const freeSoonMs = freeInMs !== null && freeInMs > 0 ? freeInMs + 1 : Number.POSITIVE_INFINITY
    const pauseMs = Math.min(leftMs, freeSoonMs, backoffMs(attempt, 20, maxPauseMs))
    if (hasNotifications && fence === null && graceOver && !hasWaiters) void store.markWaitedFor(key).catch(() => {})
    const wakers = this.#wakers.get(key) ?? new Set()
    this.#wakers.set(key, wakers)
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        forget()
        wakers.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, pauseMs)
      wakers.add(wake)
      const forget = whenAborted(giveUp, () => setImmediate(wake))
    })
    if (wakers.size === 0 && this.#wakers.get(key) === wakers) this.#wakers.delete(key)
  }
}

/** Returns false if the operation is still pending at `until`. */
async function settledBefore(until: number, pending: Promise<void>, giveUp: AbortSignal): Promise<boolean> {
  const isSettled = pending.then(() => true)
  const leftMs = Math.min(until - performance.now(), maxTimerMs)
  return (await orAborted(giveUp, resultWithin(leftMs, isSettled))) ?? false
}

function pendingError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('The database has not confirmed an earlier release of the lease')
}

function inGraceError(): DatabaseUnreachableError {
  return new DatabaseUnreachableError(
    'The server has restarted, and a process may still rely on a lock or lease from before the restart',
  )
}
