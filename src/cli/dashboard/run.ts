import { messageOf } from '../../base/index.js'
import type { DashboardOptions } from '../../dashboard/index.js'
import { checkSchema, schemaState } from '../../postgres/index.js'
import { type ConnectedDatabase, connectAll } from '../connect.js'
import { exitCode, printMessage } from '../failure.js'
import { refuseTakenPort } from '../listen.js'
import { printJson, write } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { type DashboardServer, defaultPort, serve } from './serve.js'

const closeMs = 2_000
const interruption = Symbol('interruption')

export async function runDashboard(settings: Settings): Promise<void> {
  const port = settings.wholeNumber('port', 0, 65_535) ?? defaultPort
  const readOnly = settings.flag('readOnly')
  const { databases, schema } = connectAll(settings)
  const interrupted = new Promise<typeof interruption>((resolve) => {
    onSignals(stopSignals, () => resolve(interruption))
  })
  let server: DashboardServer | undefined
  try {
    // A database that does not respond must not delay the exit. Nothing has started yet, so nothing must be closed.
    const checked = await Promise.race([checkSchemas(databases, schema), interrupted])
    if (checked === interruption) process.exit(exitCode.done)
    const traceUrl = settings.text('traceUrl')
    const shown = { ...databaseOptions(databases), schema, readOnly, traceUrl }
    server = await serve(shown, port, { host: settings.text('host') })
    if (settings.flag('json')) printJson<'dashboard'>({ url: server.url, readOnly })
    else write([server.url])
    const addresses = databases.map(({ database }) => database.address).join(', ')
    printMessage(`Showing ${addresses}${readOnly ? ' (read-only)' : ''}. Press Ctrl-C to stop.`)
    await interrupted
  } catch (error) {
    refuseTakenPort(error, port, '--port')
  } finally {
    // An unresponsive database must not delay the exit.
    const exitTimer = setTimeout(() => process.exit(exitCode.done), closeMs)
    await server?.close()
    await Promise.all(databases.map(({ database }) => database.close()))
    clearTimeout(exitTimer)
  }
}

function databaseOptions(databases: readonly ConnectedDatabase[]): Pick<DashboardOptions, 'pool' | 'databases'> {
  if (databases.length === 1) return { pool: databases[0]!.pool }
  return { databases: Object.fromEntries(databases.map(({ name, pool }) => [name!, { pool }])) }
}

/**
 * Throws if no database has an up-to-date schema. The dashboard shows the other databases' errors, and shows their data
 * as soon as they respond.
 */
async function checkSchemas(databases: readonly ConnectedDatabase[], schema: string): Promise<void> {
  const checks = databases.map(async ({ name, database }) => {
    try {
      checkSchema(await schemaState(database, schema), schema)
    } catch (error) {
      if (databases.length > 1) printMessage(`${name}: ${messageOf(error)}`)
      throw error
    }
  })
  const results = await Promise.allSettled(checks)
  if (results.every(({ status }) => status === 'rejected')) await checks[0]
}
