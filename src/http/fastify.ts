import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Once } from '../once/index.js'
import { bytesOf, hasBody, headerOf, protectNode } from './node.js'
import type { Exchange, Policy } from './policy.js'
import { problemResponse } from './response.js'
import { sendRecorded } from './response-capture.js'

/** What is used of Fastify. */
export interface FastifyInstanceLike {
  addHook(name: 'preHandler', hook: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<void>): unknown
}

export interface FastifyRequestLike {
  readonly raw: IncomingMessage
  readonly body: unknown
  /** What plugins that keep the bytes put here. */
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
              // Fastify has done its part and answers nothing more.
              sendRecorded(reply.raw, notRecordedResponse())
              request.log.error({ err: error }, 'The response could not be recorded, and was not sent')
            },
          })
        }),
    )
  }
  // For the instance that registers it, not for a child of it: what Fastify looks for in plugins.
  return Object.assign(plugin, { [Symbol.for('skip-override')]: true })
}

function notRecordedResponse() {
  return problemResponse(
    503,
    'The response could not be recorded',
    'Send the request again: it gets the response of this one, or is handled anew.',
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
