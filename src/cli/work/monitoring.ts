import { createServer } from 'node:http'
import type { Holdfast } from '../../index.js'
import { healthHandler, metricsHandler } from '../../telemetry/index.js'
import { printMessage } from '../failure.js'
import { listen, refuseTakenPort } from '../listen.js'

export interface MonitoringServer {
  close(): void
}

/** Serves `/metrics`, `/health/live` and `/health/ready` on all addresses of this machine. */
export async function serveMonitoring(holdfast: Holdfast, port: number): Promise<MonitoringServer> {
  const metrics = metricsHandler(holdfast)
  const health = healthHandler(holdfast)
  const handlers = new Map([
    ['/metrics', metrics],
    ['/health/live', health],
    ['/health/ready', health],
  ])
  const server = createServer((request, response) => {
    const [path = ''] = (request.url ?? '').split('?')
    const handler = handlers.get(path)
    if (handler) void handler.node(request, response)
    else response.writeHead(404, { 'content-type': 'text/plain' }).end(`Expected ${[...handlers.keys()].join(', ')}\n`)
  })
  const address = await listen(server, port).catch((error) => refuseTakenPort(error, port, '--metrics-port'))
  printMessage(`holdfast: serving metrics and health checks on port ${address.port}`)
  return {
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
