import type { IncomingMessage, ServerResponse } from 'node:http'

interface EndpointReply {
  readonly status: number
  readonly type: string
  readonly body: string
}

/** HTTP handler for GET requests. The handler is a Fetch API function, and has a variant for Node.js. */
export interface Endpoint {
  (request: Request): Promise<Response>
  /** Handler for `node:http`, Express and other frameworks that pass Node.js request and response objects. */
  readonly node: (request: IncomingMessage, response: ServerResponse) => Promise<void>
}

/** @internal */
export function endpoint(handle: (path: string) => Promise<EndpointReply>): Endpoint {
  const reply = async (method: string | undefined, url: string): Promise<EndpointReply> => {
    if (method !== 'GET' && method !== 'HEAD')
      return { status: 405, type: 'text/plain', body: 'Expected GET or HEAD\n' }
    try {
      const { status, type, body } = await handle(new URL(url, 'http://localhost').pathname)
      return { status, type, body: method === 'HEAD' ? '' : body }
    } catch {
      // The error is not shown, because its message may contain private data.
      return { status: 500, type: 'text/plain', body: 'Internal error\n' }
    }
  }
  const fetch = async (request: Request): Promise<Response> => {
    const { status, type, body } = await reply(request.method, request.url)
    return new Response(body, { status, headers: headersOf(type) })
  }
  const node = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { status, type, body } = await reply(request.method, request.url ?? '/')
    response.writeHead(status, headersOf(type)).end(body)
  }
  return Object.assign(fetch, { node })
}

function headersOf(type: string): Record<string, string> {
  return { 'content-type': type, 'cache-control': 'no-store' }
}
