import { createHash } from 'node:crypto'
import {
  checkNoMissingValue,
  type Duration,
  describe,
  findMissingValue,
  flag,
  listOf,
  readOptions,
  text,
  UsageError,
} from '../base/index.js'
import { type Once, retainRule, waitRule } from '../once/index.js'
import { type AnyRequest, digestOf, functionRule, type Policy, throwMissingOption } from './policy.js'
import { Protection } from './protection.js'
import { problemResponse } from './response.js'
import { readStringItem } from './string-item.js'

export interface IdempotentOptions<Given = AnyRequest> {
  /**
   * Returns an ID that identifies the client, such as the user ID, so that clients never receive each other's
   * responses. `given` is the first argument of the framework's handlers.
   */
  scope: (given: Given) => string | Promise<string>
  /**
   * Whether a request without the header is rejected with status 400. Default true. If false, such a request is handled
   * without protection.
   */
  required?: boolean | undefined
  /** Whether keys without quotation marks are accepted. Many clients send such keys. Default false. */
  bare?: boolean | undefined
  /** Protected methods. Default `['POST', 'PATCH']`. Requests with other methods are not protected. */
  methods?: readonly string[] | undefined
  /** Maximum time for which a duplicate waits for the response to the first request. Default 0. */
  wait?: Duration | undefined
  /** Time for which a response is kept. State this time in your API's documentation. Default `7d`. */
  retain?: Duration | undefined
  /** URL of your documentation about the header, used as the `type` of problem responses. */
  docs?: string | undefined
}

const rules = {
  scope: functionRule('a function that returns an ID that identifies the client'),
  required: flag,
  bare: flag,
  methods: {
    expected: 'an array of methods',
    read: (given: unknown) => {
      const list = listOf(given)
      return list?.every((one) => typeof one === 'string') ? list.map((method) => method.toUpperCase()) : undefined
    },
  },
  wait: waitRule,
  retain: retainRule,
  docs: text,
}

const maxKeyLength = 255

/**
 * Implements the `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header): a repeated request takes effect
 * once and receives the first response. Responds with 400 if the key is missing, 409 while the first request is in
 * flight, and 422 if the key is reused with a different method, path or body. If the response is 500 or above, or the
 * handler throws, the key stays free. The key also stays free after status 425 or 429, and after a status from 400 to
 * 499 with the header `retry-after`.
 *
 * @example
 * const idempotency = idempotent(holdfast.once, { scope: (request) => request.user.id, retain: '24h' })
 * app.post('/payments', express.json(), idempotency.express(), async (request, response) => { … })
 */
export function idempotent<Given = AnyRequest>(once: Once, options: IdempotentOptions<Given>): Protection {
  const read = readOptions('idempotent', options, rules)
  const { required = true, bare = false, methods = ['POST', 'PATCH'], wait, retain, docs } = read
  const scope = read.scope ?? throwMissingOption('scope', rules.scope)

  const problem = (status: number, title: string, detail: string, headers?: Record<string, string>) =>
    problemResponse(status, title, detail, { type: docs, headers })

  const refuse = (title: string, detail: string) => ({ do: 'respond', response: problem(400, title, detail) }) as const

  const policy: Policy = {
    name: 'idempotent',
    async plan(exchange) {
      if (!methods.includes(exchange.method)) return { do: 'pass' }
      const header = exchange.header('idempotency-key')
      if (header === null && !required) return { do: 'pass' }
      if (header === null) {
        return refuse(
          'Idempotency-Key is missing',
          'Send a header such as Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324". Use a new key for each operation, and the same key for each retry.',
        )
      }
      const key = readStringItem(header, bare)
      if (key === undefined || key === '' || key.length > maxKeyLength) {
        return refuse(
          'Idempotency-Key is not valid',
          `Expected one string of 1 to ${maxKeyLength} printable ASCII characters, in quotation marks.`,
        )
      }
      const missingValue = findMissingValue(key)
      if (missingValue !== undefined) {
        return refuse(
          'Idempotency-Key is not valid',
          `Expected a new key for each operation, got a key that contains "${missingValue}", which indicates a missing value.`,
        )
      }
      const caller = await scope(exchange.callbackArgument())
      if (typeof caller !== 'string' || caller === '') {
        throw new UsageError(
          `Expected scope to return a non-empty string, got ${describe(caller)}`,
          'Return an ID that identifies the client, such as the user ID. If all clients share their keys, return a constant such as "everybody".',
        )
      }
      checkNoMissingValue(caller, 'scope')
      const fingerprint = digestOf(`${exchange.method} ${exchange.path}\n`, await exchange.body())
      return { do: 'run', key: keyOf(caller, key), options: { wait, retain, fingerprint } }
    },
    inFlight: () =>
      problem(
        409,
        'A request is outstanding for this Idempotency-Key',
        'A request with the same Idempotency-Key is still being processed. Send this request again in a moment.',
        { 'retry-after': '1' },
      ),
    mismatch: () =>
      problem(
        422,
        'Idempotency-Key is already used',
        'This key was already used for a request with a different method, path or body. Use a new key for each operation.',
      ),
  }
  return new Protection(once, policy)
}

/**
 * Joins the scope and the key. An escaped scope contains no slash, so keys in different scopes always differ. Long
 * scopes are hashed.
 */
function keyOf(scope: string, key: string): string {
  const caller = encodeURIComponent(scope)
  return `${caller.length <= 200 ? caller : createHash('sha256').update(scope).digest('hex')}/${key}`
}
