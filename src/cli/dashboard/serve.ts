import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { UsageError } from '../../base/index.js'
import { type DashboardOptions, dashboard } from '../../dashboard/index.js'

export const defaultPort = 7777

export interface DashboardServer {
  readonly url: string
  close(): Promise<void>
}

/** Serves a dashboard on its own HTTP server. Rejects with `EADDRINUSE` if the port is taken. */
export async function serve(options: DashboardOptions, port: number, host = '127.0.0.1'): Promise<DashboardServer> {
  const board = dashboard(options)
  const server = createServer((request, response) => board.node(request, response))
  return {
    url: await listen(server, port, host),
    async close() {
      server.close()
      await board.close()
      server.closeAllConnections()
    },
  }
}

function listen(server: Server, port: number, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const isForeignAddress = error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND'
      reject(
        isForeignAddress
          ? new UsageError(`Expected --host to be an address of this machine, got ${JSON.stringify(host)}`)
          : error,
      )
    })
    server.listen(port, host, () => {
      const { address, port: taken, family } = server.address() as AddressInfo
      resolve(`http://${family === 'IPv6' ? `[${address}]` : address}:${taken}/`)
    })
  })
}

export function isPortTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
}
