import { createHash } from 'node:crypto'
import { describe, isInstance, type OptionRule, UsageError } from '../base/index.js'
import { type Delivery, FingerprintMismatchError, type Once, type OnceOptions } from '../once/index.js'
import { type RecordedResponse, responseCodec, withHeader } from './response.js'

// biome-ignore lint/suspicious/noExplicitAny: the request type of any framework
export type AnyRequest = any

/** Any framework's request. */
export interface Exchange {
  /** Handler arguments that `deliveryOf` accepts. */
  readonly handlerArguments: readonly object[]
  /** Argument that the user's callbacks receive. */
  callbackArgument(): unknown
  readonly method: string
  /** Path and query string. */
  readonly path: string
  header(name: string): string | null
  /** Returns the whole body. The handler can still read it. */
  body(): Promise<Uint8Array>
}

type Plan =
  | { readonly do: 'pass' }
  | { readonly do: 'respond'; readonly response: RecordedResponse }
  | { readonly do: 'run'; readonly key: string; readonly options: OnceOptions }

/** Behavior that differs between webhooks and idempotent requests. */
export interface Policy {
  readonly name: string
  plan(exchange: Exchange): Promise<Plan>
  /** Returns the response to a duplicate while the first request is in flight. */
  inFlight(): RecordedResponse
  /** Returns the response to a request with the same key but different content. */
  mismatch(): RecordedResponse
}

const deliveries = new WeakMap<object, Delivery>()

/**
 * Returns the delivery that a protected handler is processing. The delivery contains `tx`, `signal` and `fence`. Writes
 * through `tx` are committed together with the recorded response. Returns null if the request is not protected.
 * Accepts a `Request`, an Express or Fastify request, or a Hono context.
 *
 * @example
 * app.post('/invoices', idempotency.express(), async (request, response) => {
 *   const { tx } = deliveryOf(request)!
 *   await tx.query('insert into invoice (customer) values ($1)', [request.body.customer])
 *   response.status(201).json({ created: true })
 * })
 */
export function deliveryOf(request: object): Delivery | null {
  return deliveries.get(request) ?? null
}

/** Thrown to keep the key free, so that the next attempt runs the handler again. */
class NotRecordedSignal extends Error {
  constructor(readonly response: RecordedResponse) {
    super('This response is not recorded, so the key stays free')
  }
}

/**
 * Returns the response to a request, or undefined if the policy does not protect the request. `handle` runs the
 * handler.
 */
export async function respond(
  once: Once,
  policy: Policy,
  exchange: Exchange,
  handle: () => Promise<RecordedResponse>,
): Promise<RecordedResponse | undefined> {
  const plan = await policy.plan(exchange)
  if (plan.do === 'pass') return undefined
  if (plan.do === 'respond') return plan.response
  const work = async (delivery: Delivery) => {
    for (const request of exchange.handlerArguments) deliveries.set(request, delivery)
    const response = await handle()
    if (!isFinal(response)) throw new NotRecordedSignal(response)
    return response
  }
  try {
    const answer = await once.runWith(policy.name, plan.key, work, plan.options, responseCodec)
    if (answer.status === 'in-progress') return policy.inFlight()
    return answer.status === 'done' ? answer.value : withHeader(answer.value, 'idempotent-replayed', 'true')
  } catch (error) {
    if (isInstance(error, NotRecordedSignal)) return error.response
    if (isInstance(error, FingerprintMismatchError)) return policy.mismatch()
    throw error
  }
}

/** Returns false if the response says that a later attempt may succeed. */
function isFinal({ status, headers }: RecordedResponse): boolean {
  if (status >= 500 || status === 425 || status === 429) return false
  return status < 400 || !headers.some(([name]) => name.toLowerCase() === 'retry-after')
}

/** Returns a digest that identifies a request's content. */
export function digestOf(...parts: (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('base64')
}

type Callback = (given: AnyRequest) => string | Promise<string>

export function functionRule(expected: string): OptionRule<Callback> {
  return { expected, read: (given) => (typeof given === 'function' ? (given as Callback) : undefined) }
}

/** Throws an error if an option is missing. */
export function throwMissingOption(option: string, { expected }: OptionRule<Callback>): never {
  throw new UsageError(`Expected ${option} to be ${expected}, got ${describe(undefined)}`)
}
