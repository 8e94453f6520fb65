import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { readRights } from '../../acts/index.js'
import { version } from '../../index.js'
import { exitCode, printMessage } from '../failure.js'
import { write } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { McpContext } from './context.js'
import { McpServer } from './server.js'

/** Maximum time for the running calls after stdin has closed. */
const closeMs = 5_000

export async function runMcp(settings: Settings): Promise<void> {
  const rights = settings.text('rights') ?? 'read'
  const permitted = readRights(
    rights === 'all' || rights === 'read' ? rights : rights.split(',').map((word) => word.trim()),
  )
  const context = new McpContext(settings)
  const server = new McpServer(context, permitted, version, (line) => write([line]))
  const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })
  lines.on('line', (line) => server.receive(line))
  onSignals(stopSignals, () => lines.close())
  const does = permitted.length === 0 ? 'read-only' : `permits ${permitted.join(', ')}`
  printMessage(
    `Serving MCP for ${context.database.address} on stdin and stdout (${does}). An MCP client starts this command.`,
  )
  await once(lines, 'close')
  // An unresponsive database must not delay the exit.
  setTimeout(() => process.exit(exitCode.done), closeMs).unref()
  await server.settled()
  await context.close()
}
