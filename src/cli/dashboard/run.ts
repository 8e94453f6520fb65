import { checkSchema, schemaState } from '../../postgres/index.js'
import { connect } from '../connect.js'
import { exitCode, printMessage } from '../failure.js'
import { refuseTakenPort } from '../listen.js'
import { printJson, write } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { type DashboardServer, defaultPort, serve } from './serve.js'

const closeMs = 2_000

export async function runDashboard(settings: Settings): Promise<void> {
  const port = settings.wholeNumber('port', 0, 65_535) ?? defaultPort
  const readOnly = settings.flag('readOnly')
  const { pool, database, schema } = connect(settings)
  const interrupted = new Promise<void>((resolve) => {
    onSignals(stopSignals, () => resolve())
  })
  let server: DashboardServer | undefined
  try {
    checkSchema(await schemaState(database, schema), schema)
    const traceUrl = settings.text('traceUrl')
    server = await serve({ pool, schema, readOnly, traceUrl }, port, { host: settings.text('host') })
    if (settings.flag('json')) printJson<'dashboard'>({ url: server.url, readOnly })
    else write([server.url])
    printMessage(`Showing ${database.address}${readOnly ? ' (read-only)' : ''}. Press Ctrl-C to stop.`)
    await interrupted
  } catch (error) {
    refuseTakenPort(error, port, '--port')
  } finally {
    // An unresponsive database must not delay the exit.
    const exitTimer = setTimeout(() => process.exit(exitCode.done), closeMs)
    await server?.close()
    await database.close()
    clearTimeout(exitTimer)
  }
}
