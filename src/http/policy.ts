import { describe, isInstance, type OptionRule, UsageError } from '../base/index.js'
import { type Delivery, FingerprintMismatchError, type Once, type OnceOptions } from '../once/index.js'
import { type RecordedResponse, responseCodec, withHeader } from './response.js'

// biome-ignore lint/suspicious/noExplicitAny: whatever the framework in use gives to handlers
export type AnyRequest = any

/** A request, whatever framework it came by. */
export interface Exchange {
  /** What handlers are given, by which they ask for their delivery. */
  readonly handlerArguments: readonly object[]
  /** What the callbacks of the user are given. */
  callbackArgument(): unknown
  readonly method: string
  /** Path and query. */
  readonly path: string
  /** A header of the request, or null. */
  header(name: string): string | null
  /** The whole body, which the handler can still read. */
  body(): Promise<Uint8Array>
}

/** What to do with a request. */
type Plan =
  | { readonly do: 'pass' }
  | { readonly do: 'respond'; readonly response: RecordedResponse }
  | { readonly do: 'run'; readonly key: string; readonly options: OnceOptions }

/** What webhooks and idempotent requests do differently. */
export interface Policy {
  readonly name: string
  plan(exchange: Exchange): Promise<Plan>
  /** The answer to a duplicate of a request that is still being handled. */
  inFlight(): RecordedResponse
  /** The response to another content under the same key. */
  mismatch(): RecordedResponse
}

const deliveries = new WeakMap<object, Delivery>()

/**
 * The delivery that a protected handler works for: `tx`, whose writes commit together with the recorded response, `signal`
 * and `fence`. Undefined for a request that is not protected. Takes what the framework hands to the handler: a `Request`,
 * the request of Express or Fastify, the context of Hono.
 *
 * @example
 * app.post('/invoices', idempotency.express(), async (request, response) => {
 *   const { tx } = deliveryOf(request)!
 *   await tx.query('insert into invoice (customer) values ($1)', [request.body.customer])
 *   response.status(201).json({ created: true })
 * })
 */
export function deliveryOf(request: object): Delivery | undefined {
  return deliveries.get(request)
}

/** A response that leaves the key free: the next try runs the handler again. */
class NotRecordedSignal extends Error {
  constructor(readonly response: RecordedResponse) {
    super('A response that leaves the key free')
  }
}

/** The response to a request, or undefined when the policy lets it pass. `handle` runs the handler, once. */
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
    if (response.status >= 500) throw new NotRecordedSignal(response)
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

type Callback = (given: AnyRequest) => string | Promise<string>

export function functionRule(expected: string): OptionRule<Callback> {
  return { expected, read: (given) => (typeof given === 'function' ? (given as Callback) : undefined) }
}

/** Complains that an option is not there which must be. */
export function throwMissingOption(option: string, { expected }: OptionRule<Callback>): never {
  throw new UsageError(`Expected ${option} to be ${expected}, got ${describe(undefined)}`)
}
