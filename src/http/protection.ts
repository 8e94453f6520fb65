import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Once } from '../once/index.js'
import { protectExpress } from './express.js'
import { type FastifyInstanceLike, protectFastify } from './fastify.js'
import { protectFetch } from './fetch.js'
import { type HonoContext, protectHono } from './hono.js'
import type { Policy } from './policy.js'

/** What stands before handlers, in the way of each framework. None of them is imported: only what they hand over is used. */
export class Protection {
  readonly #once: Once
  readonly #policy: Policy

  /** @internal */
  constructor(once: Once, policy: Policy) {
    this.#once = once
    this.#policy = policy
  }

  /**
   * Before a handler of web-standard requests: Next.js route handlers, Hono's `app.fetch`, Bun, Deno, workers.
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
   * Middleware of Express 4 and 5, and of whatever else takes `(request, response, next)`. Body parsers may stand before
   * or behind it.
   *
   * @example
   * app.post('/webhooks/stripe', express.raw({ type: 'application/json' }), verify, events.express(), handler)
   */
  express(): (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void {
    return protectExpress(this.#once, this.#policy)
  }

  /**
   * A plugin of Fastify 4 and 5, for all routes of the instance that registers it, and those below.
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
   * Middleware of Hono.
   *
   * @example
   * app.post('/webhooks/stripe', events.hono(), handler)
   */
  hono(): (context: HonoContext, next: () => Promise<void>) => Promise<Response | undefined> {
    return protectHono(this.#once, this.#policy)
  }
}
