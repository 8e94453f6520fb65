import { ClosedError } from '../base/index.js'
import { isSame } from './changes.js'
import type { DashboardContext } from './dashboard-context.js'
import { Refusal } from './refusal.js'
import { errorBody, toJson } from './serialize.js'
import type { AnyView } from './view.js'
import type { ErrorBody } from './wire.js'

const maxSubscriptions = 100
/** Interval between attempts to reach an unreachable database. */
const retryMs = 1_000

/** Message to a view's subscribers. `json` is the serialized data. */
export type LiveMessage =
  | { readonly kind: 'snapshot'; readonly at: Date; readonly json: string }
  | { readonly kind: 'failure'; readonly error: ErrorBody }

/** A view with its parameters. */
export interface ViewRequest {
  /** Key that is the same for all requests with the same view and parameters. */
  readonly id: string
  readonly view: AnyView
  readonly params: Parameters<AnyView['read']>[1]
}

interface Subscription {
  readonly request: ViewRequest
  readonly listeners: Set<(message: LiveMessage) => void>
  dueAt: number
  /** Latest published snapshot. The next snapshot is published only if its data differs. */
  snapshot: { readonly message: LiveMessage & { kind: 'snapshot' }; readonly data: unknown } | undefined
  failure: ErrorBody | undefined
}

/**
 * Polls the views that pages subscribe to. Runs each distinct request once per interval, and only one request at a
 * time, so that the database receives no bursts of queries. Publishes changed data to the subscribers. Runs no queries
 * while there are no subscribers.
 */
export class Hub {
  readonly #context: DashboardContext
  readonly #subscriptions = new Map<string, Subscription>()
  #timer: NodeJS.Timeout | undefined
  #isPolling = false

  constructor(context: DashboardContext) {
    this.#context = context
  }

  /** Number of distinct requests with subscribers. */
  get size(): number {
    return this.#subscriptions.size
  }

  /** Subscribes the listener, which first receives the latest snapshot and failure. Returns the unsubscriber. */
  subscribe(request: ViewRequest, listener: (message: LiveMessage) => void): () => void {
    let subscription = this.#subscriptions.get(request.id)
    if (subscription === undefined) {
      if (this.#subscriptions.size >= maxSubscriptions) {
        throw new Refusal(503, 'TOO_MANY_VIEWS', `${maxSubscriptions} views are already open`, 'Close some pages.')
      }
      const dueAt = performance.now()
      subscription = { request, listeners: new Set(), dueAt, snapshot: undefined, failure: undefined }
      this.#subscriptions.set(request.id, subscription)
    }
    const { listeners, snapshot, failure } = subscription
    listeners.add(listener)
    if (snapshot) listener(snapshot.message)
    if (failure) listener({ kind: 'failure', error: failure })
    this.#schedule()
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#subscriptions.get(request.id)?.listeners === listeners) {
        this.#subscriptions.delete(request.id)
      }
    }
  }

  /** Returns the current message if the request already has subscribers, and otherwise the result of the next poll. */
  read(request: ViewRequest): Promise<LiveMessage> {
    return new Promise((resolve) => {
      let latest: LiveMessage
      const stop = this.subscribe(request, (message) => {
        latest = message
        // subscribe() can call the listener before it returns `stop`, and can call the listener twice: with a snapshot
        // and then with a failure.
        queueMicrotask(() => {
          stop()
          resolve(latest)
        })
      })
    })
  }

  close(): void {
    clearTimeout(this.#timer)
    for (const subscription of this.#subscriptions.values())
      publishFailure(subscription, errorBody(new ClosedError('The dashboard')))
    this.#subscriptions.clear()
  }

  #schedule(): void {
    if (this.#isPolling) return
    clearTimeout(this.#timer)
    const next = this.#nextDue()
    if (next) this.#timer = setTimeout(() => void this.#pollDue(), Math.max(0, next.dueAt - performance.now())).unref()
  }

  #nextDue(): Subscription | undefined {
    let next: Subscription | undefined
    for (const subscription of this.#subscriptions.values())
      if (!next || subscription.dueAt < next.dueAt) next = subscription
    return next
  }

  async #pollDue(): Promise<void> {
    this.#isPolling = true
    for (let next = this.#nextDue(); next && next.dueAt <= performance.now(); next = this.#nextDue())
      await this.#poll(next)
    this.#isPolling = false
    this.#schedule()
  }

  async #poll(subscription: Subscription): Promise<void> {
    const { view, params } = subscription.request
    const startedAt = performance.now()
    try {
      await this.#context.ready()
      const offset = await this.#context.clockOffset()
      const sentAt = performance.now()
      const data = await view.read(this.#context.viewContext, params)
      const endedAt = performance.now()
      this.#publish(subscription, data, new Date((sentAt + endedAt) / 2 + offset))
      // A slow view is polled less often.
      subscription.dueAt = endedAt + Math.max(view.intervalMs, 2 * (endedAt - startedAt))
    } catch (error) {
      const body = errorBody(error)
      const tookMs = performance.now() - startedAt
      if (body.code === 'DATABASE_UNREACHABLE' && !(await this.#context.isReachable()))
        this.#publishUnreachable(subscription, body)
      else {
        subscription.dueAt = performance.now() + Math.max(retryMs, view.intervalMs, 2 * tookMs)
        publishFailure(subscription, body.code === 'DATABASE_UNREACHABLE' ? unansweredError(error as Error) : body)
      }
    }
  }

  /**
   * Publishes the failure to all subscriptions. Then only the subscription that is due first tries the database again.
   */
  #publishUnreachable(subscription: Subscription, body: ErrorBody): void {
    const again = performance.now() + retryMs
    subscription.dueAt = again
    for (const other of this.#subscriptions.values()) {
      other.dueAt = Math.max(other.dueAt, again)
      publishFailure(other, body)
    }
  }

  #publish(subscription: Subscription, data: unknown, at: Date): void {
    const { snapshot, failure } = subscription
    if (snapshot && !failure && isSame(snapshot.data, data, at.getTime() - snapshot.message.at.getTime())) return
    const message = { kind: 'snapshot', at, json: toJson(data) } as const
    subscription.snapshot = { message, data }
    subscription.failure = undefined
    // The database is reachable again, so the hub polls the other failed subscriptions now.
    if (failure?.code === 'DATABASE_UNREACHABLE') {
      for (const other of this.#subscriptions.values()) {
        if (other.failure?.code === failure.code) other.dueAt = performance.now()
      }
    }
    for (const listener of subscription.listeners) listener(message)
  }
}

/** Returns the error for a view whose query receives no response although the database responds to other queries. */
function unansweredError({ message, cause }: Error): ErrorBody {
  return {
    code: 'UNANSWERED',
    message: `The database is reachable, but this query received no response: ${cause instanceof Error ? cause.message : message}`,
    hint: 'The dashboard retries the query automatically.',
  }
}

function publishFailure(subscription: Subscription, error: ErrorBody): void {
  if (subscription.failure?.code === error.code && subscription.failure.message === error.message) return
  subscription.failure = error
  for (const listener of subscription.listeners) listener({ kind: 'failure', error })
}
