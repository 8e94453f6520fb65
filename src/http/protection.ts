import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Once } from '../once/index.js'
import { protectExpress, protectListener } from './express.js'
import { type FastifyInstanceLike, protectFastify } from './fastify.js'
import { protectFetch } from './fetch.js'
import { type HonoContext, protectHono } from './hono.js'
import type { Policy } from './policy.js'

/** Protects request handlers of several frameworks without importing any of these frameworks. */
export class Protection {
  readonly #once: Once
  readonly #policy: Policy

  /** @internal */
  constructor(once: Once, policy: Policy) {
    this.#once = once
    this.#policy = policy
  }

  /**
   * Wraps a handler of web-standard requests: Next.js route handlers, Hono's `app.fetch`, Bun, Deno, workers.
   *
   * @example
   * export const POST = events.fetch(async (request) => Response.json(await handle(await request.json())))
   */
  fetch<Given extends Request, Rest extends unknown[]>(
    handler: (request: Given, ...rest: Rest) => Response | Promise<Response>,
  ): (request: Given, ...rest: Rest) => Promise<Response> {
    return protectFetch(this.#once, this.#policy, handler)
  }

  /**
   * Wraps a request listener of `node:http`. If the listener or its promise fails, the error is printed to stderr, and the
   * client receives status 500. The returned promise never rejects.
   *
   * @example
   * createServer(events.node(async (request, response) => response.end(await handle(request))))
   */
  node<Given extends IncomingMessage>(
    listener: (request: Given, response: ServerResponse) => unknown,
  ): (request: Given, response: ServerResponse) => Promise<void> {
    return protectListener(this.#once, this.#policy, listener)
  }

  /**
   * Returns middleware for Express 4 and 5, and for other frameworks that use `(request, response, next)`. Body parsers
   * may come before or after this middleware.
   *
   * @example
   * app.post('/webhooks/stripe', express.raw({ type: 'application/json' }), verify, events.express(), handler)
   */
  express(): (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void {
    return protectExpress(this.#once, this.#policy)
  }

  /**
   * Returns a plugin for Fastify 4 and 5. The plugin protects all routes of the registering instance and its child
   * instances.
   *
   * @example
   * fastify.register(async (webhooks) => {
   *   webhooks.register(events.fastify())
   *   webhooks.post('/stripe', handler)
   * })
   */
  fastify(): (instance: FastifyInstanceLike) => Promise<void> {
    return protectFastify(this.#once, this.#policy)
  }

  /**
   * Returns middleware for Hono.
   *
   * @example
   * app.post('/webhooks/stripe', events.hono(), handler)
   */
  hono(): (context: HonoContext, next: () => Promise<void>) => Promise<Response | undefined> {
    return protectHono(this.#once, this.#policy)
  }
}
