import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Whether a server could listen on the port now. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}

/**
 * Finds a free port outside the ephemeral range. With a port in that range, a restart can fail. While the server is stopped, a client tries
 * to reconnect, and the system may assign the server's port to the client as its local port. The client then connects to itself, and the
 * server cannot listen on the port.
 */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000)
    if (await isPortFree(port)) return port
  }
}
