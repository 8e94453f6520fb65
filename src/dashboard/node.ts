import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { RequestSource } from './guard.js'

/** Node.js request with the properties that routers and body parsers add. */
type ParsedRequest = IncomingMessage & { body?: unknown; originalUrl?: string }

type Handle = (request: Request, from: RequestSource) => Promise<Response>

/** Passes a Node.js request to a Fetch API handler, and sends the handler's response. */
export async function handleNode(handle: Handle, incoming: ParsedRequest, outgoing: ServerResponse): Promise<void> {
  const closed = new AbortController()
  outgoing.once('close', () => closed.abort())
  let request: Request
  try {
    request = requestOf(incoming, closed.signal)
  } catch {
    outgoing.writeHead(400, { connection: 'close' }).end()
    return
  }
  const response = await handle(request, { remoteAddress: incoming.socket.remoteAddress, incoming })
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  // Discards the rest of an unread body.
  if (!incoming.complete) incoming.resume()
  if (incoming.method === 'HEAD' || response.body === null) outgoing.end()
  else await send(response.body, outgoing, closed.signal)
}

function requestOf(incoming: ParsedRequest, signal: AbortSignal): Request {
  const { method = 'GET', headers, originalUrl, url = '/' } = incoming
  const protocol = (incoming.socket as TLSSocket).encrypted ? 'https' : 'http'
  const given = new Headers()
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !name.startsWith(':')) given.set(name, Array.isArray(value) ? value.join(', ') : value)
  }
  // A request without a host name must not count as a request to this machine.
  const host = headers.host ?? String(headers[':authority'] ?? 'unknown.invalid')
  // Assigns the path separately, because a path that begins with two slashes would otherwise be parsed as a host name.
  const address = new URL(`${protocol}://${host}`)
  const [path = '/', ...search] = (originalUrl ?? url).split('?')
  address.pathname = path
  address.search = search.join('?')
  const hasBody = method !== 'GET' && method !== 'HEAD'
  return new Request(address, {
    method,
    headers: given,
    signal,
    ...(hasBody ? { body: bodyOf(incoming), duplex: 'half' } : {}),
  })
}

/** Returns the raw body, or the body that a parser has already read. */
function bodyOf(incoming: ParsedRequest): ReadableStream | Uint8Array<ArrayBuffer> | string {
  const { body } = incoming
  if (body === undefined) return chunksOf(incoming)
  if (body instanceof Uint8Array) return new Uint8Array(body)
  return typeof body === 'string' ? body : JSON.stringify(body)
}

/** Streams the body on demand, because the dashboard refuses most invalid requests before it reads their body. */
function chunksOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  const pieces = incoming.iterator({ destroyOnReturn: false })
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await pieces.return?.()
      },
    },
    { highWaterMark: 0 },
  )
}

async function send(body: ReadableStream<Uint8Array>, outgoing: ServerResponse, gone: AbortSignal): Promise<void> {
  const reader = body.getReader()
  const leave = () => void reader.cancel().catch(() => {})
  if (gone.aborted) leave()
  gone.addEventListener('abort', leave, { once: true })
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    if (!outgoing.write(piece.value)) await once(outgoing, 'drain', { signal: gone }).catch(() => {})
  }
  outgoing.end()
}
