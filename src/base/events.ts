import { UsageError } from './errors.js'
import { suggest } from './suggest.js'
import { awaitValue, isThenable } from './thenable.js'
import { describe } from './user-values.js'

/**
 * All of an instance's events and their payloads. Each event concerns only the instance that emits it. The state of the
 * whole fleet is in the database. A test compares docs/reference/events.md with this interface.
 */
export interface HoldfastEvents {
  /** The instance lost its session, and with it all its locks and permits. The instance reconnects automatically. */
  'instance.lost': { readonly reason: Error }
  /** The instance has reconnected. Everything that it held before has been lost. */
  'instance.reconnected': { readonly lostForMs: number }
  /** An attempt to begin the first session or to reconnect failed. The instance keeps trying. */
  'instance.connect-failed': { readonly error: unknown }
  /** Another live instance uses the given name, so this instance has a name with a suffix, such as `worker-3#2`. */
  'instance.name-taken': { readonly wanted: string; readonly name: string }
  /** Draining has started: the instance starts no new work. */
  'instance.drain-started': { readonly withinMs: number }
  /** The instance was closed normally. */
  'instance.closed': Record<never, never>

  /** A lock was granted, immediately or after a wait. */
  'lock.acquired': LockFacts & { readonly fence: number; readonly waitedMs: number }
  /** A lock was not granted, because another holder has the lock or the wait timed out. */
  'lock.refused': LockFacts & { readonly waitedMs: number }
  /** A lock was released. `reason` is set if a release was requested. */
  'lock.released': LockFacts & { readonly fence: number; readonly heldMs: number; readonly reason: Error | undefined }
  /** A lock was lost while it was held. Another holder may acquire it. */
  'lock.lost': LockFacts & { readonly fence: number; readonly heldMs: number; readonly reason: Error }

  /** A lease was granted. */
  'lease.acquired': LeaseFacts & { readonly fence: number; readonly waitedMs: number }
  /** A lease was not granted, because another holder has the lease or the wait timed out. */
  'lease.refused': LeaseFacts & { readonly waitedMs: number }
  /** A lease was released. `reason` is set if a release was requested. */
  'lease.released': LeaseFacts & { readonly fence: number; readonly heldMs: number; readonly reason: Error | undefined }
  /** A lease was lost while it was held. */
  'lease.lost': LeaseFacts & { readonly fence: number; readonly heldMs: number; readonly reason: Error }

  /** A permit for a limit was granted. */
  'limit.acquired': PermitFacts & { readonly fence: number; readonly waitedMs: number }
  /** A permit was not granted, because all of the limit's permits were in use. */
  'limit.refused': PermitFacts & { readonly inUse: number; readonly waitedMs: number }
  /** A permit was released. */
  'limit.released': PermitFacts & { readonly fence: number; readonly heldMs: number }
  /** A permit was lost while it was held. */
  'limit.lost': PermitFacts & { readonly fence: number; readonly heldMs: number; readonly reason: Error }
  /** A rate limit was exceeded, and `limits.consume` rejected the call. */
  'rate.refused': { readonly name: string; readonly cost: number; readonly retryAfterMs: number }

  /** This instance became the leader. */
  'election.elected': { readonly name: string; readonly term: number }
  /** This instance gave up its leadership. `reason` is set if the instance was asked to step down. */
  'election.resigned': {
    readonly name: string
    readonly term: number
    readonly ledMs: number
    readonly reason: Error | undefined
  }
  /** This instance lost its leadership. */
  'election.lost': { readonly name: string; readonly term: number; readonly ledMs: number; readonly reason: Error }
  /** A campaign's function threw an error, or another error prevents this instance from being a candidate. */
  'election.failed': { readonly name: string; readonly error: unknown }

  /** The function for an idempotency key ran, and its result was recorded. */
  'delivery.done': { readonly key: string; readonly durationMs: number }
  /** The idempotency key already had a recorded result, and the call returned that result. */
  'delivery.replayed': { readonly key: string }
  /** A call was rejected because its fingerprint differs from the fingerprint of the first call with the same key. */
  'delivery.mismatched': { readonly key: string }
  /** Another run with the same idempotency key was in progress and did not finish before the wait timed out. */
  'delivery.refused': { readonly key: string }
  /** The function for an idempotency key threw an error, or its result could not be recorded. */
  'delivery.failed': { readonly key: string; readonly durationMs: number; readonly error: unknown }
  /** Another run took over the idempotency key while the function was running. */
  'delivery.lost': { readonly key: string; readonly durationMs: number; readonly reason: Error }

  /** One of a share's resources was assigned to this instance. */
  'share.gained': { readonly share: string; readonly resource: string; readonly fence: number }
  /** This instance no longer owns a resource, because the resource moved or was lost, or the assignment was closed. */
  'share.released': { readonly share: string; readonly resource: string; readonly fence: number }
  /** A share's function threw an error, or another error prevents this instance from taking part. */
  'share.failed': { readonly share: string; readonly error: unknown }

  /** A schedule run started on this instance. */
  'schedule.started': RunFacts & { readonly lateMs: number }
  /** A schedule run ended: it completed, was cancelled, was returned to the fleet, or was lost. */
  'schedule.ended': RunFacts & {
    readonly state: 'done' | 'cancelled' | 'returned' | 'lost'
    readonly durationMs: number
  }
  /** A schedule's function threw an error or timed out. */
  'schedule.failed': RunFacts & { readonly durationMs: number; readonly error: unknown }
  /** An error prevents this instance from starting its schedules' runs. The instance keeps trying. */
  'scheduler.failed': { readonly error: unknown }

  /** One or more jobs of one kind were enqueued. If `inTransaction` is true, the jobs exist only after your transaction has committed. */
  'job.enqueued': {
    readonly kind: string
    readonly queue: string
    readonly ids: readonly number[]
    readonly inTransaction: boolean
  }
  /** A job's attempt started. */
  'job.started': JobFacts
  /** A job's step, or the value of its cursor, was recorded. */
  'job.step-recorded': JobFacts & { readonly step: string; readonly durationMs: number }
  /** A job's handler finished successfully. */
  'job.done': JobFacts & { readonly durationMs: number }
  /** A job's attempt failed. The job will be retried after a backoff, or has been buried (dead letter). */
  'job.failed': JobFacts & {
    readonly maxAttempts: number
    readonly durationMs: number
    readonly state: 'retried' | 'buried'
    readonly retryInMs: number | undefined
    readonly error: unknown
  }
  /** A job's attempt ended in another way: with an outcome, suspended, cancelled, or because the worker stopped. */
  'job.ended': JobFacts & {
    readonly durationMs: number
    readonly state: 'retried' | 'suspended' | 'cancelled' | 'discarded' | 'returned' | 'lost'
  }
  /** A job was buried because its workers died while running it. The instance that took over the job emits this event. */
  'job.crashed': { readonly id: number; readonly kind: string; readonly queue: string; readonly crashes: number }
  /** A job ended because no worker had claimed it before its deadline. The instance that ran maintenance emits this event. */
  'job.expired': { readonly id: number; readonly kind: string; readonly queue: string; readonly startBy: Date }
  /** Jobs that this instance enqueued are ready, but no worker in the fleet handles their kind in their queue. */
  'job.unserved': {
    readonly kind: string
    readonly queue: string
    readonly unserved: 'queue' | 'kind'
    readonly jobs: number
    readonly forMs: number
  }
  /** An error prevents a worker from claiming jobs. The worker keeps retrying. */
  'worker.failed': { readonly queues: readonly string[]; readonly error: unknown }
}

export interface LockFacts {
  readonly names: readonly string[]
  /** The 64-bit keys, in the order in which they are locked. */
  readonly keys: readonly string[]
  readonly mode: 'exclusive' | 'shared'
}

export interface LeaseFacts {
  readonly name: string
  /** The 64-bit key of the name. */
  readonly key: string
}

export interface PermitFacts {
  readonly name: string
  readonly weight: number
}

export interface RunFacts {
  readonly name: string
  readonly tick: Date
  /** Whether the run was requested explicitly, in addition to the rule's ticks. */
  readonly extra: boolean
  readonly attempt: number
}

export interface JobFacts {
  readonly id: number
  readonly kind: string
  readonly queue: string
  readonly attempt: number
}

export type EventName = keyof HoldfastEvents

// This is a record so that a missing event is a compile error.
const knownEvents: Record<EventName, true> = {
  'instance.lost': true,
  'instance.reconnected': true,
  'instance.connect-failed': true,
  'instance.name-taken': true,
  'instance.drain-started': true,
  'instance.closed': true,
  'lock.acquired': true,
  'lock.refused': true,
  'lock.released': true,
  'lock.lost': true,
  'lease.acquired': true,
  'lease.refused': true,
  'lease.released': true,
  'lease.lost': true,
  'limit.acquired': true,
  'limit.refused': true,
  'limit.released': true,
  'limit.lost': true,
  'rate.refused': true,
  'election.elected': true,
  'election.resigned': true,
  'election.lost': true,
  'election.failed': true,
  'delivery.done': true,
  'delivery.replayed': true,
  'delivery.mismatched': true,
  'delivery.refused': true,
  'delivery.failed': true,
  'delivery.lost': true,
  'share.gained': true,
  'share.released': true,
  'share.failed': true,
  'schedule.started': true,
  'schedule.ended': true,
  'schedule.failed': true,
  'scheduler.failed': true,
  'job.enqueued': true,
  'job.started': true,
  'job.step-recorded': true,
  'job.done': true,
  'job.failed': true,
  'job.ended': true,
  'job.crashed': true,
  'job.expired': true,
  'job.unserved': true,
  'worker.failed': true,
}

/** The names of all events. */
export const eventNames = Object.keys(knownEvents) as readonly EventName[]

type Listener<Name extends EventName> = (event: HoldfastEvents[Name]) => void

/**
 * An instance's event listeners. Modules emit an event with `events.emitter('lock.lost')?.({ … })`. If the event has no
 * listener, this expression costs one map lookup and does not create the event object.
 */
export class Events {
  readonly #listeners = new Map<EventName, readonly Listener<never>[]>()
  readonly #emitters = new Map<EventName, Listener<never>>()
  /** Number of listeners that the program has added, for each event. */
  readonly #handlers = new Map<EventName, number>()

  /**
   * Like `on`, but for a listener that the program adds. While the program has a listener, `isHandled` returns true.
   */
  handle<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    const stop = this.on(name, listener)
    this.#countHandlers(name, 1)
    let isStopped = false
    return () => {
      if (!isStopped) this.#countHandlers(name, -1)
      isStopped = true
      stop()
    }
  }

  /** Whether the program has a listener for the event. Holdfast's own listeners do not count. */
  isHandled(name: EventName): boolean {
    return (this.#handlers.get(name) ?? 0) > 0
  }

  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    // Each call creates a separate subscription, even if the same function is already subscribed.
    const own: Listener<Name> = (event) => listener(event)
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), own])
    if (!this.#emitters.has(name)) this.#emitters.set(name, (event) => this.#emit(name, event))
    return () => {
      const left = (this.#listeners.get(name) ?? []).filter((one) => one !== own)
      this.#listeners.set(name, left)
      if (left.length === 0) this.#emitters.delete(name)
    }
  }

  /** Returns a function that calls the event's listeners, or undefined if the event has no listeners. */
  emitter<Name extends EventName>(name: Name): Listener<Name> | undefined {
    // The emitter that is stored under an event's name accepts that event's payload.
    return this.#emitters.get(name) as Listener<Name> | undefined
  }

  #countHandlers(name: EventName, change: number): void {
    this.#handlers.set(name, (this.#handlers.get(name) ?? 0) + change)
  }

  #emit(name: EventName, event: never): void {
    // If a listener adds or removes a subscription during this loop, the change takes effect with the next event.
    for (const listener of this.#listeners.get(name) ?? []) {
      try {
        const returned: unknown = listener(event)
        // Ignores an asynchronous listener's rejection, because an unhandled rejection would end the process.
        if (isThenable(returned)) awaitValue(returned).catch(() => {})
      } catch {
        // Ignores the error, because a failing listener must not affect the work.
      }
    }
  }
}

/** Throws unless `on`'s arguments are valid. */
export function checkSubscription(name: unknown, listener: unknown): void {
  if (typeof listener !== 'function') {
    throw new UsageError(`Expected the listener to be a function, got ${describe(listener)}`)
  }
  if (typeof name === 'string' && Object.hasOwn(knownEvents, name)) return
  const meant = typeof name === 'string' ? suggest(name, eventNames) : undefined
  throw new UsageError(
    `Expected the name of an event, got ${describe(name)}`,
    meant ? `Did you mean "${meant}"?` : 'docs/reference/events.md lists all events.',
  )
}
