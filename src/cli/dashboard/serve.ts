import { createServer } from 'node:http'
import { type DashboardOptions, dashboard } from '../../dashboard/index.js'
import { listen } from '../listen.js'

export const defaultPort = 7777

export interface DashboardServer {
  readonly url: string
  close(): Promise<void>
}

/** Serves a dashboard on its own HTTP server. Rejects with `EADDRINUSE` if the port is taken. */
export async function serve(options: DashboardOptions, port: number, host = '127.0.0.1'): Promise<DashboardServer> {
  const board = dashboard(options)
  const server = createServer((request, response) => board.node(request, response))
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
