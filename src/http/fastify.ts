import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Once } from '../once/index.js'
import { bytesOf, hasBody, headerOf, protectNode } from './node.js'
import type { Exchange, Policy } from './policy.js'
import { problemResponse } from './response.js'
import { sendRecorded } from './response-capture.js'

/** The part of a Fastify instance that Holdfast uses. */
export interface FastifyInstanceLike {
  addHook(name: 'preHandler', hook: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<void>): unknown
}

export interface FastifyRequestLike {
  readonly raw: IncomingMessage
  readonly body: unknown
  /** The body's raw bytes, which plugins such as fastify-raw-body set. */
  readonly rawBody?: unknown
  readonly originalUrl: string
  readonly log: { error(details: unknown, message: string): void }
}

export interface FastifyReplyLike {
  readonly raw: ServerResponse
  hijack(): unknown
}

export function protectFastify(once: Once, policy: Policy) {
  const plugin = async (instance: FastifyInstanceLike): Promise<void> => {
    instance.addHook(
      'preHandler',
      (request, reply) =>
        new Promise<void>((resolve, reject) => {
          void protectNode(once, policy, exchangeOf(request), reply.raw, {
            proceed: resolve,
            takeOver() {
              reply.hijack()
              resolve()
            },
            fail(error, isHandled) {
              if (!isHandled) return reject(error)
              // Sends the response itself, because Fastify does not send a second response.
              sendRecorded(reply.raw, notRecordedResponse())
              request.log.error({ err: error }, 'The response could not be recorded and was not sent')
            },
          })
        }),
    )
  }
  // Because of this symbol, Fastify applies the hook to the registering instance and not only to a child instance.
  return Object.assign(plugin, { [Symbol.for('skip-override')]: true })
}

function notRecordedResponse() {
  return problemResponse(
    503,
    'The response could not be recorded',
    'Send the request again. You will receive the response to this request, or the request will be handled again.',
    { headers: { 'retry-after': '1' } },
  )
}

function exchangeOf(request: FastifyRequestLike): Exchange {
  return {
    handlerArguments: [request, request.raw],
    callbackArgument: () => request,
    method: request.raw.method ?? '',
    path: request.originalUrl,
    header: (name) => headerOf(request.raw, name),
    body: async () => bytesOf(request.rawBody ?? request.body, hasBody(request.raw)),
  }
}
