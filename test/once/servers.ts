// Serves one service with each framework. The same webhooks and idempotent requests protect its handlers.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { onTestFinished } from 'vitest'
import { deliveryOf, type IdempotentOptions, idempotent, type WebhookOptions, webhooks } from '../../src/http/index.js'
import type { Once, Transaction } from '../../src/index.js'

export interface ServiceResponse {
  status?: number
  headers?: [string, string][]
  body?: string | Uint8Array
  /** Chunks of the body, if the framework can write chunks. */
  pieces?: Uint8Array[]
}

export interface Service {
  /** Handles a request, given its body as text and the transaction of its delivery. */
  handle(body: string, tx: Transaction | undefined): Promise<ServiceResponse> | ServiceResponse
  webhooks?: Partial<WebhookOptions>
  idempotent?: Partial<IdempotentOptions>
}

export type Framework = (once: Once, service: Service) => Promise<string>

const keyOf = (body: unknown) => `event:${(body as { id: string }).id}`

export function listen(server: Server): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
    onTestFinished(async () => {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    })
  })
}

const toResponse = ({ status = 200, headers = [], body, pieces }: ServiceResponse) =>
  new Response(
    pieces
      ? new ReadableStream({
          start(controller) {
            for (const piece of pieces) controller.enqueue(piece)
            controller.close()
          },
        })
      : (body as string | undefined),
    { status, headers },
  )

function expressWith(parser: 'before' | 'behind') {
  return async (once: Once, service: Service) => {
    const app = express()
    app.disable('x-powered-by')
    const parsers = [express.json({ limit: '20mb' }), express.text({ limit: '20mb' })]
    const key = (req: express.Request) => keyOf(req.body ?? { id: req.headers['x-event-id'] })
    const handler: express.RequestHandler = async (req, res) => {
      const text = typeof req.body === 'string' ? req.body : JSON.stringify(req.body)
      const { status = 200, headers = [], body, pieces } = await service.handle(text, deliveryOf(req)?.tx)
      res.status(status)
      for (const [name, value] of headers) res.append(name, value)
      if (!pieces) return void res.end(body)
      for (const piece of pieces) res.write(piece)
      res.end()
    }
    const guards = {
      '/hook': webhooks(once, { key, ...service.webhooks }).express(),
      '/pay': idempotent(once, {
        scope: (req) => req.headers['x-user'] ?? 'anonymous',
        ...service.idempotent,
      }).express(),
    }
    for (const [path, guard] of Object.entries(guards)) {
      if (parser === 'before') app.all(path, parsers, guard, handler)
      else app.all(path, guard, parsers, handler)
    }
    const silent: express.ErrorRequestHandler = (error, _req, res, _next) => void res.status(500).end(String(error))
    app.use(silent)
    return listen(createServer(app))
  }
}

export const frameworks: Record<string, Framework> = {
  'Express, parsers before': expressWith('before'),
  'Express, parsers behind': expressWith('behind'),

  async Fastify(once, service) {
    const app = Fastify({ bodyLimit: 2 ** 25, forceCloseConnections: true })
    app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
    const guards = {
      '/hook': webhooks(once, { key: ({ body }) => keyOf(body), ...service.webhooks }),
      '/pay': idempotent(once, { scope: ({ headers }) => headers['x-user'] ?? 'anonymous', ...service.idempotent }),
    }
    for (const [path, guard] of Object.entries(guards)) {
      app.register(async (scope) => {
        scope.register(guard.fastify())
        scope.all(path, async (request, reply) => {
          const text = typeof request.body === 'string' ? request.body : JSON.stringify(request.body)
          const { status = 200, headers = [], body, pieces } = await service.handle(text, deliveryOf(request)?.tx)
          reply.code(status)
          for (const [name, value] of headers) reply.header(name, value)
          if (!pieces) return reply.send(typeof body === 'object' ? Buffer.from(body) : body)
          const { Readable } = await import('node:stream')
          return reply.send(Readable.from(pieces))
        })
      })
    }
    onTestFinished(() => app.close())
    return app.listen({ port: 0, host: '127.0.0.1' })
  },

  async Hono(once, service) {
    const app = new Hono()
    const key = async (c: { req: { json(): Promise<unknown> } }) => keyOf(await c.req.json())
    const guards = {
      '/hook': webhooks(once, { key, ...service.webhooks }).hono(),
      '/pay': idempotent(once, { scope: (c) => c.req.header('x-user') ?? 'anonymous', ...service.idempotent }).hono(),
    }
    for (const [path, guard] of Object.entries(guards)) {
      app.all(path, guard as never, async (c) => {
        return toResponse(await service.handle(await c.req.text(), deliveryOf(c)?.tx))
      })
    }
    app.onError((error, c) => c.text(String(error), 500))
    return serveFetch(app.fetch as never)
  },

  async 'a fetch handler'(once, service) {
    const handler = async (request: Request) =>
      toResponse(await service.handle(await request.text(), deliveryOf(request)?.tx))
    const key = async (request: Request) => keyOf(await request.json())
    const paths: Record<string, (request: Request) => Promise<Response>> = {
      '/hook': webhooks(once, { key, ...service.webhooks }).fetch(handler),
      '/pay': idempotent(once, {
        scope: (request: Request) => request.headers.get('x-user') ?? 'anonymous',
        ...service.idempotent,
      }).fetch(handler),
    }
    return serveFetch(async (request) =>
      paths[new URL(request.url).pathname]!(request).catch((error) => new Response(String(error), { status: 500 })),
    )
  },
}

function serveFetch(fetch: (request: Request) => Response | Promise<Response>): Promise<string> {
  return new Promise((resolve) => {
    const server = serve({ fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => resolve(`http://127.0.0.1:${port}`))
    onTestFinished(async () => {
      ;(server as Server).closeAllConnections()
      await new Promise((closed) => server.close(closed))
    })
  })
}

export interface ReceivedResponse {
  status: number
  statusText: string
  headers: Record<string, string>
  cookies: string[]
  body: Buffer
}

/** Sends a request. Returns the whole response. */
export async function post(
  url: string,
  body: string | Uint8Array | undefined,
  headers: Record<string, string> = {},
  method = 'POST',
): Promise<ReceivedResponse> {
  const response = await fetch(url, { method, body: (body ?? null) as never, headers })
  return {
    status: response.status,
    statusText: response.statusText,
    headers: Object.fromEntries([...response.headers].filter(([name]) => name !== 'set-cookie')),
    cookies: response.headers.getSetCookie(),
    body: Buffer.from(await response.arrayBuffer()),
  }
}

/** Sends an event as a webhook sender does. */
export function event(url: string, id: string, more: object = {}): Promise<ReceivedResponse> {
  const headers = { 'content-type': 'application/json', 'x-event-id': id }
  return post(`${url}/hook`, JSON.stringify({ id, ...more }), headers)
}
