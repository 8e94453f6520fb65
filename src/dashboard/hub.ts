import { ClosedError } from '../base/index.js'
import { isSame } from './changes.js'
import type { DashboardContext } from './dashboard-context.js'
import { Refusal } from './refusal.js'
import { errorBody, toJson } from './serialize.js'
import type { AnyView } from './view.js'
import type { ErrorBody } from './wire.js'

/** So many questions are asked at a time. */
const maxSubscriptions = 100
/** How soon a database that is gone is looked for again. */
const retryMs = 1_000

/** What whoever watches is told. `json` is the data. */
export type LiveMessage =
  | { readonly kind: 'snapshot'; readonly at: Date; readonly json: string }
  | { readonly kind: 'failure'; readonly error: ErrorBody }

/** A view with its parameters, as it can be asked. */
export interface ViewRequest {
  /** The same for the same question. */
  readonly id: string
  readonly view: AnyView
  readonly params: Parameters<AnyView['read']>[1]
}

interface Subscription {
  readonly request: ViewRequest
  readonly listeners: Set<(message: LiveMessage) => void>
  dueAt: number
  /** The latest that was told: pictures are compared with it. */
  snapshot: { readonly message: LiveMessage & { kind: 'snapshot' }; readonly data: unknown } | undefined
  failure: ErrorBody | undefined
}

/**
 * Asks what somebody watches, each question once however many watch it, at its own pace; one after the other, so that the
 * database never gets them in a burst. Tells those who watch what has changed. Nobody watching: nothing is asked.
 */
export class Hub {
  readonly #context: DashboardContext
  readonly #subscriptions = new Map<string, Subscription>()
  #timer: NodeJS.Timeout | undefined
  #isPolling = false

  constructor(context: DashboardContext) {
    this.#context = context
  }

  /** How many questions are watched. */
  get size(): number {
    return this.#subscriptions.size
  }

  /** Tells the listener what is known, at once if somebody else watches it already, and then what changes. Returns how to stop. */
  subscribe(request: ViewRequest, listener: (message: LiveMessage) => void): () => void {
    let subscription = this.#subscriptions.get(request.id)
    if (subscription === undefined) {
      if (this.#subscriptions.size >= maxSubscriptions) {
        throw new Refusal(503, 'TOO_MANY_VIEWS', `${maxSubscriptions} views are watched already`, 'Close some pages.')
      }
      subscription = {
        request,
        listeners: new Set(),
        dueAt: performance.now(),
        snapshot: undefined,
        failure: undefined,
      }
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

  /** One answer, in its turn; at once if somebody else watches it already. */
  read(request: ViewRequest): Promise<LiveMessage> {
    return new Promise((resolve) => {
      let latest: LiveMessage
      const stop = this.subscribe(request, (message) => {
        latest = message
        // The listener may be called before it knows how to stop, and with a snapshot before the failure that came after it.
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
    const begunAt = performance.now()
    try {
      await this.#context.ready()
      const offset = await this.#context.clockOffset()
      const askedAt = performance.now()
      const data = await view.read(this.#context.viewContext, params)
      const endedAt = performance.now()
      this.#publish(subscription, data, new Date((askedAt + endedAt) / 2 + offset))
      // One that takes long is asked less often.
      subscription.dueAt = endedAt + Math.max(view.intervalMs, 2 * (endedAt - begunAt))
    } catch (error) {
      const body = errorBody(error)
      const tookMs = performance.now() - begunAt
      if (body.code === 'DATABASE_UNREACHABLE' && !(await this.#context.isReachable()))
        this.#publishUnreachable(subscription, body)
      else {
        subscription.dueAt = performance.now() + Math.max(retryMs, view.intervalMs, 2 * tookMs)
        publishFailure(subscription, body.code === 'DATABASE_UNREACHABLE' ? unansweredError(error as Error) : body)
      }
    }
  }

  /** It is gone for all of them, so one of them finds out when it is back, and not each in its turn. */
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
    // The others need not wait for their turn of retrying.
    if (failure?.code === 'DATABASE_UNREACHABLE') {
      for (const other of this.#subscriptions.values()) {
        if (other.failure?.code === failure.code) other.dueAt = performance.now()
      }
    }
    for (const listener of subscription.listeners) listener(message)
  }
}

/** Of one question alone: the database answers others. */
function unansweredError({ message, cause }: Error): ErrorBody {
  return {
    code: 'UNANSWERED',
    message: `The database is there, but gave no answer to this: ${cause instanceof Error ? cause.message : message}`,
    hint: 'It is asked again by itself.',
  }
}

function publishFailure(subscription: Subscription, error: ErrorBody): void {
  if (subscription.failure?.code === error.code && subscription.failure.message === error.message) return
  subscription.failure = error
  for (const listener of subscription.listeners) listener({ kind: 'failure', error })
}
