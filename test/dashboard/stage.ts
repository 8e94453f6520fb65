import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { type Dashboard, type DashboardOptions, dashboard } from '../../src/dashboard/index.js'

/** A dashboard that is closed when the test has finished. */
export function board(options: DashboardOptions): Dashboard {
  const made = dashboard(options)
  onTestFinished(() => made.close())
  return made
}

/** Serves it by node:http; answers with where it is, under some path. */
export async function serve({ node }: Pick<Dashboard, 'node'>, path = '/admin/fleet'): Promise<string> {
  const server = createServer(node).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
}
