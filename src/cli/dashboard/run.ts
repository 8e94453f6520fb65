import { checkSchema, schemaState } from '../../postgres/index.js'
import { connect } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printJson, write } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { defaultPort, isTaken, type Served, serve } from './serve.js'

const closeMs = 2_000

/** The dashboard, until it is interrupted. */
export async function runDashboard(settings: Settings): Promise<void> {
  const port = settings.wholeNumber('port', 0, 65_535) ?? defaultPort
  const readOnly = settings.flag('readOnly')
  const { pool, database, schema } = connect(settings)
  const interrupted = new Promise<void>((resolve) => {
    onSignals(stopSignals, () => resolve())
  })
  let served: Served | undefined
  try {
    checkSchema(await schemaState(database, schema), schema)
    served = await serve({ pool, schema, readOnly }, port, settings.text('host'))
    if (settings.flag('json')) printJson<'dashboard'>({ url: served.url, readOnly })
    else write([served.url])
    say(`Shows ${database.address}${readOnly ? ', and changes nothing' : ''}. Stop it with Ctrl-C.`)
    await interrupted
  } catch (error) {
    if (!isTaken(error)) throw error
    say(`holdfast: Port ${port} is taken\nGive another with --port, or 0 for a free one.`)
    throw new Exit(exitCode.failed)
  } finally {
    // Whoever stops it does not wait for a server that does not answer.
    const patience = setTimeout(() => process.exit(exitCode.done), closeMs)
    await served?.close()
    await database.close()
    clearTimeout(patience)
  }
}
