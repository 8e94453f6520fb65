import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type Dashboard, type DashboardOptions, dashboard } from '../../dashboard/index.js'
import { listen } from '../listen.js'

export const defaultPort = 7777

export interface DashboardServer {
  readonly url: string
  close(): Promise<void>
}

/** Additions of the demo to the dashboard: a script for the page, and an act that the script can request. */
export interface DashboardExtension {
  readonly script: string
  /** Runs the act, and returns a sentence about its outcome. */
  act(): Promise<string>
}

interface ServeOptions {
  readonly host?: string | undefined
  readonly extension?: DashboardExtension | undefined
}

/** Serves a dashboard on its own HTTP server. Rejects with `EADDRINUSE` if the port is taken. */
export async function serve(
  options: DashboardOptions,
  port: number,
  { host = '127.0.0.1', extension }: ServeOptions = {},
): Promise<DashboardServer> {
  const board = dashboard(options)
  const server = createServer((request, response) => {
    if (!extension) return board.node(request, response)
    serveExtended(board, extension, request, response).catch((error) => response.destroy(error))
  })
  const { address, port: taken, family } = await listen(server, port, host)
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${taken}/`,
    async close() {
      server.close()
      await board.close()
      server.closeAllConnections()
    },
  }
}

const scriptPath = '/demo/script.js'
const actPath = '/demo/kill'

async function serveExtended(
  board: Dashboard,
  { script, act }: DashboardExtension,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method, url, headers } = request
  const isOwn = url === scriptPath || url === actPath
  if (!isOwn && (url !== '/' || method !== 'GET')) return board.node(request, response)
  // Lets the dashboard check this client. The dashboard rejects requests with a foreign host name or origin.
  const page = await board.fetch(
    new Request(`http://${headers.host ?? 'unknown.invalid'}/`, { headers: headersOf(request) }),
    {
      remoteAddress: request.socket.remoteAddress,
    },
  )
  const send = (status: number, text: string, more: Record<string, string> = {}) =>
    response.writeHead(status, { ...Object.fromEntries(page.headers), ...more }).end(text)
  const html = await page.text()
  if (!page.ok || url === '/') {
    send(page.status, html.replace('</body>', `<script type="module" src="${scriptPath}"></script></body>`))
  } else if (url === scriptPath) send(200, script, { 'content-type': 'text/javascript; charset=utf-8' })
  // Other sites cannot send this header without a preflight request, which this server does not handle.
  else if (method !== 'POST' || headers['x-holdfast-demo'] === undefined) send(405, '')
  else send(200, await act(), { 'content-type': 'text/plain; charset=utf-8' })
}

function headersOf({ headers }: IncomingMessage): Headers {
  const given = new Headers()
  for (const name of ['host', 'origin', 'accept', 'via', 'forwarded', 'x-forwarded-for', 'x-forwarded-host']) {
    const value = headers[name]
    if (typeof value === 'string') given.set(name, value)
  }
  return given
}
