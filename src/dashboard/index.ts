import type { IncomingMessage, ServerResponse } from 'node:http'
import { type FastifyLike, pluginFor } from './fastify.js'
import { Handler } from './handler.js'
import { handleNode } from './node.js'
import { type DashboardOptions, readSettings } from './options.js'

export type { ActName, Consequence, Rights } from '../acts/index.js'
export type { Auth, DashboardDatabase, DashboardOptions, Visitor } from './options.js'
export type { Payload, Redact } from './redact.js'
export type { ViewName } from './views/index.js'
export type { Outcome } from './wire.js'

/** The dashboard's request handlers for several web frameworks. */
export interface Dashboard {
  /**
   * Handles a Fetch API request under any path. Without `auth`, you must pass the client's IP address as
   * `remoteAddress`.
   *
   * @example
   * app.all('/admin/holdfast/*', (c) => board.fetch(c.req.raw)) // Hono
   */
  readonly fetch: (request: Request, from?: { remoteAddress?: string | undefined }) => Promise<Response>
  /**
   * Handles a request from `node:http`, Express or another framework that passes Node.js's request and response
   * objects.
   *
   * @example
   * app.use('/admin/holdfast', board.node) // Express
   */
  readonly node: (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void
  /**
   * Serves the dashboard as a Fastify plugin.
   *
   * @example
   * app.register(board.fastify, { prefix: '/admin/holdfast' })
   */
  readonly fastify: (instance: FastifyLike) => Promise<void>
  /** Ends open pages' streams and closes the connections that the dashboard opened. */
  close(): Promise<void>
}

/**
 * Creates a dashboard for the fleet. The dashboard connects on the first request, and runs no queries while no page is
 * open. Without `auth`, the dashboard accepts only requests from its own machine.
 *
 * @example
 * const board = dashboard({ url: process.env.DATABASE_URL, auth: (request) => visitorOf(request) })
 * app.use('/admin/holdfast', board.node)
 *
 * @example
 * const board = dashboard({ databases: { eu: { url: euUrl }, us: { url: usUrl } }, auth })
 */
export function dashboard(options: DashboardOptions): Dashboard {
  const handler = new Handler(readSettings(options))
  const node: Dashboard['node'] = (request, response, next) => {
    handleNode((webRequest, from) => handler.handle(webRequest, from), request, response).catch((error) => {
      if (next) next(error)
      else response.destroy(error)
    })
  }
  return {
    fetch: (request, from) => handler.handle(request, { remoteAddress: from?.remoteAddress }),
    node,
    fastify: pluginFor(node),
    close: () => handler.close(),
  }
}
