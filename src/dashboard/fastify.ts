import type { IncomingMessage, ServerResponse } from 'node:http'

/** Subset of Fastify's API that the plugin uses. */
export interface FastifyLike {
  addHook(
    name: 'onRequest',
    hook: (
      request: { readonly raw: IncomingMessage },
      reply: { readonly raw: ServerResponse; hijack(): unknown },
    ) => Promise<void>,
  ): unknown
  all(path: string, handler: () => void): unknown
}

export function pluginFor(node: (request: IncomingMessage, response: ServerResponse) => void) {
  return async (instance: FastifyLike): Promise<void> => {
    // Runs before Fastify reads the body and after the hooks of the parent instance, which may authenticate the
    // request.
    instance.addHook('onRequest', async (request, reply) => {
      reply.hijack()
      node(request.raw, reply.raw)
    })
    for (const path of ['/', '/*']) instance.all(path, () => {})
  }
}
