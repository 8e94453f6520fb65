import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Whether a server could listen there now. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}

/**
 * Not the port that the system would offer: that lies where outgoing connections get theirs, so a client which dials while
 * the server is down may be given the server's port for its own end, connect to itself, and keep the server out.
 */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000)
    if (await isPortFree(port)) return port
  }
}
