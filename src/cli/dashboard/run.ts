import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { UsageError } from '../../base/index.js'
import { dashboard } from '../../dashboard/index.js'
import { checkSchema, schemaState } from '../../postgres/index.js'
import { connect } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printJson, write } from '../output.js'
import type { Settings } from '../settings.js'

const defaultPort = 7777
const closeMs = 2_000

/** The dashboard on a server of its own, until it is interrupted. */
export async function runDashboard(settings: Settings): Promise<void> {
  const port = settings.wholeNumber('port', 0, 65_535) ?? defaultPort
  const host = settings.text('host') ?? '127.0.0.1'
  const readOnly = settings.flag('readOnly')
  const { pool, database, schema } = connect(settings)
  const interrupted = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => resolve())
  })
  checkSchema(await schemaState(database, schema), schema)
  const board = dashboard({ pool, schema, readOnly })
  const server = createServer((request, response) => board.node(request, response))
  try {
    const url = await listen(server, port, host)
    if (settings.flag('json')) printJson({ url, readOnly })
    else write([url])
    say(`Shows ${database.address}${readOnly ? ', and changes nothing' : ''}. Stop it with Ctrl-C.`)
    await interrupted
  } finally {
    // Whoever stops it does not wait for a server that does not answer.
    const patience = setTimeout(() => process.exit(exitCode.done), closeMs)
    server.close()
    await board.close()
    server.closeAllConnections()
    await database.close()
    clearTimeout(patience)
  }
}

function listen(server: Server, port: number, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND') {
        return reject(new UsageError(`Expected --host to be an address of this machine, got ${JSON.stringify(host)}`))
      }
      say(
        error.code === 'EADDRINUSE'
          ? `holdfast: Port ${port} is taken\nGive another with --port, or 0 for a free one.`
          : `holdfast: ${error.message}`,
      )
      reject(new Exit(exitCode.failed))
    })
    server.listen(port, host, () => {
      const { address, port: taken, family } = server.address() as AddressInfo
      resolve(`http://${family === 'IPv6' ? `[${address}]` : address}:${taken}/`)
    })
  })
}
