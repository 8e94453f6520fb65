import { type Duration, readOptions, wholeNumber } from '../base/index.js'
import { type Once, retainRule, waitRule } from '../once/index.js'
import { type AnyRequest, aFunction, missing, type Policy } from './policy.js'
import { Protection } from './protection.js'
import { jsonResponse } from './response.js'

export interface WebhookOptions<Given = AnyRequest> {
  /** What names the event: the sender's id of it, behind the sender's name. `given` is what handlers are given. */
  key: (given: Given) => string | Promise<string>
  /** How long a duplicate waits for the response of the one in flight. Default 0. */
  wait?: Duration | undefined
  /** How long the response is kept: longer than the sender goes on trying. Default `7d`. */
  retain?: Duration | undefined
  /** The status that a duplicate gets while the first is in flight. Default 202. */
  inFlight?: number | undefined
}

const rules = {
  key: aFunction('a function that names the event of a request'),
  wait: waitRule,
  retain: retainRule,
  inFlight: wholeNumber(200, 599),
}

/**
 * Webhooks, each of which has its effect once however often it arrives, at however many processes. A duplicate gets the
 * first response; while that is not there, 202 (after `wait`). A response of 500 and above, or an error, leaves the event
 * to the sender's next try.
 *
 * @example
 * const events = webhooks(holdfast.once, { key: (request) => `stripe:${request.body.id}`, retain: '30d' })
 * app.post('/webhooks/stripe', express.json(), events.express(), async (request, response) => { … })
 */
export function webhooks<Given = AnyRequest>(once: Once, options: WebhookOptions<Given>): Protection {
  const { key, wait, retain, inFlight = 202 } = readOptions('webhooks', options, rules)
  const name = key ?? missing('key', rules.key)
  const policy: Policy = {
    name: 'webhooks',
    plan: async ({ given }) => ({ do: 'run', key: await name(given()), options: { wait, retain } }),
    inFlight: () => jsonResponse(inFlight, 'application/json', { status: 'in-progress' }, { 'retry-after': '1' }),
  }
  return new Protection(once, policy)
}
