import { checkName, type Duration, describe, readOptions, UsageError, wholeNumber } from '../base/index.js'
import { type Once, retainRule, waitRule } from '../once/index.js'
import { type AnyRequest, digestOf, functionRule, type Policy, throwMissingOption } from './policy.js'
import { Protection } from './protection.js'
import { jsonResponse, problemResponse } from './response.js'

export interface WebhookOptions<Given = AnyRequest> {
  /**
   * Returns the event's key: the name of the sender, followed by the sender's ID for the event. `given` is the first
   * argument of the framework's handlers. A key with a missing value, such as "stripe:undefined", is rejected.
   */
  key: (given: Given) => string | Promise<string>
  /**
   * Returns the content that must be the same in each delivery of an event, as text of any length. Default: the whole
   * body. Omit fields that the sender changes between deliveries, such as Stripe's `pending_webhooks`.
   */
  fingerprint?: ((given: Given) => string | Promise<string>) | undefined
  /** Maximum time that a duplicate waits for the response of the delivery in flight. Default 0. */
  wait?: Duration | undefined
  /** Time for which the response is kept. Must be longer than the period in which the sender retries. Default `7d`. */
  retain?: Duration | undefined
  /** Status for a duplicate while the first delivery is in flight. Default 202. */
  inFlight?: number | undefined
}

const rules = {
  key: functionRule('a function that returns the key of the event'),
  fingerprint: functionRule('a function that returns the content that is the same in each delivery of an event'),
  wait: waitRule,
  retain: retainRule,
  inFlight: wholeNumber(200, 599),
}

const keyHint =
  'Read the ID from the parsed event. In Express, `request.body` is undefined before a parser, and a Buffer after express.raw(). In a Request the body is a stream: `(await request.json()).id`. See docs/guides/stripe-webhooks.md.'

/**
 * Handles each webhook event once, even if it is delivered several times and to several processes. A duplicate gets the
 * first response, or 202 while the first delivery is in flight (after `wait`). After a response of 500 or above, or an
 * error, the sender's next attempt handles the event.
 *
 * Each delivery is compared with the first delivery that has the same key. A delivery with a different body gets a 422
 * response and is not handled, and the event `once.mismatched` reports the key.
 *
 * @example
 * const events = webhooks(holdfast.once, {
 *   key: (request) => `stripe:${request.body.id}`,
 *   fingerprint: ({ body: { pending_webhooks, ...event } }) => JSON.stringify(event),
 *   retain: '30d',
 * })
 * const verify = (request, response, next) => {
 *   try {
 *     const signature = request.headers['stripe-signature']
 *     request.body = stripe.webhooks.constructEvent(request.body, signature, process.env.STRIPE_WEBHOOK_SECRET)
 *   } catch {
 *     return response.status(400).send('The signature is not valid')
 *   }
 *   next()
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
        'Another event has this key',
        'An event with the same key and another body was delivered before. This event was not handled.',
      ),
  }
  return new Protection(once, policy)
}

function checkContent(given: unknown): string {
  if (typeof given === 'string' && given !== '') return given
  throw new UsageError(
    `Expected fingerprint to return a string that is not empty, got ${describe(given)}`,
    'Return content that is the same in each delivery of the event, such as JSON.stringify(request.body).',
  )
}
