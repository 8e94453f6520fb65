import { defaultTimes, HoldfastError, maxTimerMs, pause } from '../../base/index.js'
import { Observer, type Overview } from '../../observe/index.js'
import { checkSchema, schemaState } from '../../postgres/index.js'
import { connect } from '../connect.js'
import { printMessage } from '../failure.js'
import { printJson, write } from '../output.js'
import type { Settings } from '../settings.js'

const minIntervalMs = 250
const queryTimeoutMs = 10_000
const closeMs = 200

/** Shows the overview and refreshes it continuously. Without a terminal or with `--once`, prints one report. */
export async function top(settings: Settings): Promise<void> {
  const intervalMs = settings.durationMs('interval', minIntervalMs, maxTimerMs) ?? defaultTimes.topIntervalMs
  const namespace = settings.name('namespace')
  const { database, schema } = connect(settings, 1)
  const databaseWithTimeout = {
    read: <Row>(text: string, values?: readonly unknown[]) => database.read<Row>(text, values, queryTimeoutMs),
  }
  const observer = new Observer(databaseWithTimeout, schema)
  const read = () => observer.overview({ namespace })
  try {
    checkSchema(await schemaState({ query: database.read }, schema), schema)
    if (settings.flag('json')) return printJson<'top'>(await read())
    if (settings.flag('jsonl')) return await stream(read, settings.flag('once') ? undefined : intervalMs)
    if (settings.flag('once') || !isScreen()) {
      return (await import('./report.js')).printReport(settings, await read(), database.address)
    }
    const hasColours = !settings.isNegated('color') && process.stdout.hasColors()
    await (await import('./live.js')).runLive({ read, address: database.address, schema, intervalMs, hasColours })
  } finally {
    // An unresponsive server must not delay the exit.
    await Promise.race([database.close(), pause(closeMs)])
  }
}

/** Returns true if a keyboard and a terminal with a movable cursor are available. */
function isScreen(): boolean {
  return Boolean(process.stdin.isTTY && process.stdout.isTTY) && !['', 'dumb'].includes(process.env.TERM ?? '')
}

/** Prints one overview per line. Without an interval, prints only one overview. */
async function stream(read: () => Promise<Overview>, intervalMs: number | undefined): Promise<void> {
  write([JSON.stringify(await read())])
  let isGone = false
  while (intervalMs !== undefined) {
    await pause(intervalMs)
    try {
      write([JSON.stringify(await read())])
      if (isGone) printMessage('The database responds again.')
      isGone = false
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error
      if (!isGone) printMessage(`holdfast: ${error.message}; trying again`)
      isGone = true
    }
  }
}
