import { createHash } from 'node:crypto'
import {
  checkNoMissingValue,
  type Duration,
  describe,
  findMissingValue,
  flag,
  readOptions,
  text,
  UsageError,
} from '../base/index.js'
import { type Once, retainRule, waitRule } from '../once/index.js'
import { digestOf } from './fingerprint.js'
import { type AnyRequest, functionRule, type Policy, throwMissingOption } from './policy.js'
import { Protection } from './protection.js'
import { problemResponse } from './response.js'
import { readStringItem } from './string-item.js'

export interface IdempotentOptions<Given = AnyRequest> {
  /** Who asks, such as the id of the user: two callers never get each other's responses. `given` is what handlers are given. */
  scope: (given: Given) => string | Promise<string>
  /** Whether a request without the header is refused (400). Default true; with false it is handled without protection. */
  required?: boolean | undefined
  /** Whether a key without quotation marks is taken, too, as many clients send it. Default false. */
  bare?: boolean | undefined
  /** Which methods are protected. Default `['POST', 'PATCH']`; the others pass. */
  methods?: readonly string[] | undefined
  /** How long a duplicate waits for the response of the one in flight. Default 0. */
  wait?: Duration | undefined
  /** How long the response is kept; tell your clients. Default `7d`. */
  retain?: Duration | undefined
  /** The address of your documentation about the header; the type of the problems that are reported. */
  docs?: string | undefined
}

const rules = {
  scope: functionRule('a function that says who asks'),
  required: flag,
  bare: flag,
  methods: {
    expected: 'an array of methods',
    read: (given: unknown) =>
      Array.isArray(given) && given.every((one) => typeof one === 'string')
        ? given.map((method: string) => method.toUpperCase())
        : undefined,
  },
  wait: waitRule,
  retain: retainRule,
  docs: text,
}

const maxKeyLength = 255

/**
 * The `Idempotency-Key` header as its IETF draft describes it (draft-ietf-httpapi-idempotency-key-header): a request that
 * is sent again with its key has its effect once and gets the first response. 400 without a key, 409 while the first is
 * in flight, 422 when the key comes with another method, path or body. A response of 500 and above, or an error, leaves
 * the key free.
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
          `Send a header such as Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324", a new one for each operation and the same one for each retry of it.`,
        )
      }
      const key = readStringItem(header, bare)
      if (key === undefined || key === '' || key.length > maxKeyLength) {
        return refuse(
          'Idempotency-Key is not valid',
          `Expected one string in quotation marks, of 1 to ${maxKeyLength} printable ASCII characters.`,
        )
      }
      const missingValue = findMissingValue(key)
      if (missingValue !== undefined) {
        return refuse(
          'Idempotency-Key is not valid',
          `Expected a new key for each operation, got one with "${missingValue}", which stands for a value that is missing.`,
        )
      }
      const caller = await scope(exchange.callbackArgument())
      if (typeof caller !== 'string' || caller === '') {
        throw new UsageError(
          `Expected scope to answer with a string that is not empty, got ${describe(caller)}`,
          'Name the caller, such as the id of the user; or "everybody", where all callers are one.',
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
        'A request with the same Idempotency-Key is still being processed. Send this one again in a moment.',
        { 'retry-after': '1' },
      ),
    mismatch: () =>
      problem(
        422,
        'Idempotency-Key is already used',
        'The key was used before for a request with another method, path or body. Use a new key for another operation.',
      ),
  }
  return new Protection(once, policy)
}

/** The scope cannot reach into the key: it has no slash. A long one is known by its hash. */
function keyOf(scope: string, key: string): string {
  const caller = encodeURIComponent(scope)
  return `${caller.length <= 200 ? caller : createHash('sha256').update(scope).digest('hex')}/${key}`
}
