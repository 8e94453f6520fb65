import type { IncomingMessage, ServerResponse } from 'node:http'
import { type FastifyLike, pluginFor } from './fastify.js'
import { Handler } from './handler.js'
import { handleNode } from './node.js'
import { type DashboardOptions, readSettings } from './options.js'

export type { ActName, Consequence } from '../acts/index.js'
export type { Auth, DashboardOptions, Visitor } from './options.js'
export type { Payload, Redact } from './redact.js'
export type { ViewName } from './views/index.js'
export type { Outcome } from './wire.js'

/** The dashboard, to be mounted wherever there is room for it. */
export interface Dashboard {
  /**
   * Answers a request of the web standard, under any path. `remoteAddress` is where it comes from, for a dashboard without
   * auth.
   *
   * @example
   * app.all('/admin/holdfast/*', (c) => board.fetch(c.req.raw)) // Hono
   */
  readonly fetch: (request: Request, from?: { remoteAddress?: string | undefined }) => Promise<Response>
  /**
   * The same for `node:http`, Express and whatever hands out the request and the response of Node.js.
   *
   * @example
   * app.use('/admin/holdfast', board.node) // Express
   */
  readonly node: (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void
  /**
   * The same for Fastify, as a plugin.
   *
   * @example
   * app.register(board.fastify, { prefix: '/admin/holdfast' })
   */
  readonly fastify: (instance: FastifyLike) => Promise<void>
  /** Ends the pages that are open and closes what the dashboard opened. */
  close(): Promise<void>
}

/**
 * The dashboard of the fleet. Opens nothing until somebody comes, and asks the database nothing while nobody looks. Without
 * `auth` it answers only to its own machine.
 *
 * @example
 * const board = dashboard({ url: process.env.DATABASE_URL, auth: (request) => visitorOf(request) })
 * app.use('/admin/holdfast', board.node)
 */
export function dashboard(options: DashboardOptions): Dashboard {
  const handler = new Handler(readSettings(options))
  const node: Dashboard['node'] = (request, response, next) => {
    handleNode((asked, from) => handler.handle(asked, from), request, response).catch((error) => {
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
