import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { UsageError } from '../base/index.js'
import { Exit, exitCode, printMessage } from './failure.js'

/**
 * Starts the server and returns its address. Without a host, the server listens on all addresses of this machine.
 * Rejects with `EADDRINUSE` if the port is taken.
 */
export function listen(server: Server, port: number, host?: string): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const isForeignAddress = error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND'
      reject(
        isForeignAddress
          ? new UsageError(`Expected --host to be an address of this machine, got ${JSON.stringify(host)}`)
          : error,
      )
    })
    server.listen(port, host, () => resolve(server.address() as AddressInfo))
  })
}

export function isPortTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
}

/** Reports a taken port and ends the command. Throws any other error again. */
export function refuseTakenPort(error: unknown, port: number, option: string): never {
  if (!isPortTaken(error)) throw error
  printMessage(
    `holdfast: Port ${port} is already in use\nChoose another port with ${option}, or use 0 for any free port.`,
  )
  throw new Exit(exitCode.failed)
}
