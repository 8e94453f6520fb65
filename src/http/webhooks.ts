import {
  checkContentHasValue,
  checkName,
  type Duration,
  describe,
  readOptions,
  UsageError,
  wholeNumber,
} from '../base/index.js'
import { type Once, retainRule, waitRule } from '../once/index.js'
import { type AnyRequest, digestOf, functionRule, type Policy, throwMissingOption } from './policy.js'
import { Protection } from './protection.js'
import { jsonResponse, problemResponse } from './response.js'

export interface WebhookOptions<Given = AnyRequest> {
  /**
   * Returns the event's key: the sender's name, followed by the sender's ID for the event. `given` is the first
   * argument of the framework's handlers. A key with a missing value, such as "stripe:undefined", is rejected.
   */
  key: (given: Given) => string | Promise<string>
  /**
   * Returns the content that must be the same each time an event is delivered, as text of any length. Default: the
   * whole body. Omit fields that the sender changes between deliveries, such as Stripe's `pending_webhooks`.
   */
  fingerprint?: ((given: Given) => string | Promise<string>) | undefined
  /** Maximum time for which a duplicate waits for the response to the first delivery. Default 0. */
  wait?: Duration | undefined
  /**
   * Time for which a response is kept. Must be longer than the period during which the sender retries. Default `7d`.
   */
  retain?: Duration | undefined
  /** Status for a duplicate while the first delivery is in flight. Default 202. */
  inFlight?: number | undefined
}

const rules = {
  key: functionRule("a function that returns the event's key"),
  fingerprint: functionRule('a function that returns the content that is the same in each delivery of an event'),
  wait: waitRule,
  retain: retainRule,
  inFlight: wholeNumber(200, 599),
}

const keyHint =
  'Read the ID from the parsed event. In Express, `request.body` is undefined before a body parser has run, and a Buffer after express.raw(). The body of a Request is a stream, so use `(await request.json()).id`. See docs/guides/stripe-webhooks.md.'

/**
 * Handles each webhook event once, even if it is delivered several times and to several processes. A duplicate receives
 * the first response. If the first delivery is still in flight after `wait`, the duplicate receives status 202. After a
 * response of 500 or above, or an error, the sender's next attempt handles the event. The same applies to status 425 or
 * 429, and to a status from 400 to 499 with the header `retry-after`.
 *
 * Each delivery is compared with the first delivery that has the same key. A delivery with a different body receives
 * status 422 and is not handled, and the `delivery.mismatched` event reports the key.
 *
 * @example
 * const events = webhooks(holdfast.once, {
 *   key: (request) => `stripe:${request.body.id}`,
 *   fingerprint: ({ body: { pending_webhooks, ...event } }) => JSON.stringify(event),
 *   retain: '30d',
 * })
 * const verify: RequestHandler = (request, response, next) => {
 *   try {
 *     const signature = request.headers['stripe-signature']
 *     request.body = stripe.webhooks.constructEvent(request.body, signature, process.env.STRIPE_WEBHOOK_SECRET)
 *     next()
 *   } catch {
 *     response.status(400).send('The signature is not valid')
 *   }
 * }
 * app.post('/webhooks/stripe', express.raw({ type: 'application/json' }), verify, events.express(), handler)
 */
export function webhooks<Given = AnyRequest>(once: Once, options: WebhookOptions<Given>): Protection {
  const { key, fingerprint, wait, retain, inFlight = 202 } = readOptions('webhooks', options, rules)
  const eventKey = key ?? throwMissingOption('key', rules.key)
  const policy: Policy = {
    name: 'webhooks',
    async plan(exchange) {
      const event = checkName(await eventKey(exchange.callbackArgument()), 'key', keyHint)
      const content = fingerprint ? checkContent(await fingerprint(exchange.callbackArgument())) : await exchange.body()
      return { do: 'run', key: event, options: { wait, retain, fingerprint: digestOf(content) } }
    },
    inFlight: () => jsonResponse(inFlight, 'application/json', { status: 'in-progress' }, { 'retry-after': '1' }),
    mismatch: () =>
      problemResponse(
        422,
        'A different event has the same key',
        'An event with the same key but a different body was delivered earlier. This event was not handled.',
      ),
  }
  return new Protection(once, policy)
}

function checkContent(given: unknown): string {
  if (typeof given === 'string' && given !== '') {
    checkContentHasValue(given, 'the result of fingerprint')
    return given
  }
  throw new UsageError(
    `Expected fingerprint to return a non-empty string, got ${describe(given)}`,
    'Return content that is the same in each delivery of the event, such as JSON.stringify(request.body).',
  )
}
