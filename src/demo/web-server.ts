import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

type Handler = (request: Request) => Promise<Response>

/** Minimal web server: routes paths to handlers of web-standard requests. */
export class WebServer {
  readonly #handlers = new Map<string, Handler>()
  readonly #server = createServer(async (incoming, outgoing) => {
    const response = await this.#respond(incoming).catch(() => new Response(null, { status: 500 }))
    outgoing.writeHead(response.status, Object.fromEntries(response.headers))
    outgoing.end(await response.text())
  })

  on(path: string, handler: Handler): void {
    this.#handlers.set(path, handler)
  }

  /** Returns the port. */
  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return (this.#server.address() as AddressInfo).port
  }

  /** Stops the server after all running requests have finished. */
  async close(): Promise<void> {
    await new Promise((resolve) => {
      this.#server.close(resolve)
      this.#server.closeIdleConnections()
    })
  }

  async #respond(incoming: IncomingMessage): Promise<Response> {
    const { method, url, headers } = incoming
    const handler = this.#handlers.get(url!)
    if (!handler) return new Response(null, { status: 404 })
    return handler(
      new Request(`http://127.0.0.1${url}`, {
        method: method!,
        headers: headers as Record<string, string>,
        body: await text(incoming),
      }),
    )
  }
}
