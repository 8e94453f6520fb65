import type { IncomingMessage, ServerResponse } from 'node:http'

/** What is used of Fastify. */
export interface FastifyLike {
  addHook(name: 'onRequest', hook: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<void>): unknown
  all(path: string, handler: () => void): unknown
}

export interface FastifyRequestLike {
  readonly raw: IncomingMessage
}

export interface FastifyReplyLike {
  readonly raw: ServerResponse
  hijack(): unknown
}

export function pluginFor(node: (request: IncomingMessage, response: ServerResponse) => void) {
  return async (instance: FastifyLike): Promise<void> => {
    // Before Fastify reads the body, and after the hooks of those in which we are registered, which may ask who comes.
    instance.addHook('onRequest', async (request, reply) => {
      reply.hijack()
      node(request.raw, reply.raw)
    })
    for (const path of ['/', '/*']) instance.all(path, () => {})
  }
}
