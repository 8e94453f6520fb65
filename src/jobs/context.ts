import type { Events, MiddlewareStack, TracerSlot } from '../base/index.js'
import type { TransactionContext } from '../once/index.js'
import type { Anchor, Presence } from '../postgres/index.js'
import { Claims } from './claims.js'
import type { FindIdleWorker } from './enqueuing.js'
import { FollowUps } from './follow-ups.js'
import { Intake } from './intake.js'
import { Maintenance } from './maintenance.js'
import { Queues } from './queues.js'
import { JobStore, type JobStoreOptions } from './store.js'
import { UnservedCheck } from './unserved.js'

export interface JobsOptions extends JobStoreOptions {
  readonly presence: Presence
  readonly attempts: TransactionContext
  readonly namespace: string
  /** Number of days for which the history is kept. */
  readonly retainDays: number
  /** Dedicated connection for notifications. Undefined if the instance has no such connection. */
  readonly anchor: Anchor | undefined
  readonly events: Events
  readonly tracing: TracerSlot
  readonly middleware: MiddlewareStack
  /** Called before each worker starts. */
  readonly onWorker: () => void
}

/**
 * Objects shared by an instance's public methods and workers. `Jobs` creates the context once. The objects in
 * the context do not use the context itself.
 */
export interface JobsContext {
  readonly store: JobStore
  readonly queues: Queues
  readonly intake: Intake
  readonly claims: Claims
  readonly followUps: FollowUps
  readonly maintenance: Maintenance
  readonly unserved: UnservedCheck
  readonly presence: Presence
  readonly attempts: TransactionContext
  readonly events: Events
  readonly tracing: TracerSlot
  readonly middleware: MiddlewareStack
  readonly namespace: string
  /** Whether the instance receives notifications. Without notifications, it finds new jobs only by polling. */
  readonly hasListener: boolean
}

/** Calls from the context to the instance's workers. */
interface WorkerCalls {
  /** Called when follow-ups have made jobs ready. */
  readonly onReady: () => void
  readonly findIdleWorker: FindIdleWorker
}

/** Creates the context. */
export function createJobsContext(options: JobsOptions, { onReady, findIdleWorker }: WorkerCalls): JobsContext {
  const { presence, attempts, namespace, retainDays, schema, anchor, events, tracing, middleware } = options
  const hasListener = anchor !== undefined
  const store = new JobStore(options)
  const queues = new Queues(store, namespace)
  const maintenance = new Maintenance(store, { idleMs: hasListener ? 5_000 : 1_000, retainDays, schema, events })
  const followUps = new FollowUps(store, presence, maintenance, onReady)
  const unserved = new UnservedCheck(store, queues, events)
  const intake = new Intake(store, queues, followUps, { events, tracing, middleware, unserved, findIdleWorker })
  const claims = new Claims(store)
  return {
    store,
    queues,
    intake,
    claims,
    followUps,
    maintenance,
    unserved,
    presence,
    attempts,
    events,
    tracing,
    middleware,
    namespace,
    hasListener,
  }
}
