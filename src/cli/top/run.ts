import { defaultTimes, HoldfastError, maxTimerMs, pause } from '../../base/index.js'
import { connectAll } from '../connect.js'
import type { TopDocument } from '../documents.js'
import { printMessage } from '../failure.js'
import { printJson, write } from '../output.js'
import type { Settings } from '../settings.js'
import { overviewSource, readAll } from './sources.js'

const minIntervalMs = 250
const closeMs = 200

/** Shows the overview and refreshes it continuously. Without a terminal or with `--once`, prints one report. */
export async function top(settings: Settings): Promise<void> {
  const intervalMs = settings.durationMs('interval', minIntervalMs, maxTimerMs) ?? defaultTimes.topIntervalMs
  const namespace = settings.name('namespace')
  const { databases, schema } = connectAll(settings, 1)
  const sources = databases.map((one) => overviewSource(one, schema, namespace))
  const read = (): Promise<TopDocument> => (sources.length > 1 ? readAll(sources) : sources[0]!.read())
  try {
    if (settings.flag('json')) return printJson<'top'>(await read())
    if (settings.flag('jsonl')) return await stream(read, settings.flag('once') ? undefined : intervalMs)
    if (settings.flag('once') || !isScreen()) return await (await import('./report.js')).printReport(settings, sources)
    const hasColours = !settings.isNegated('color') && process.stdout.hasColors()
    await (await import('./live.js')).runLive({ sources, schema, intervalMs, hasColours })
  } finally {
    // An unresponsive server must not delay the exit.
    await Promise.race([Promise.all(databases.map(({ database }) => database.close())), pause(closeMs)])
  }
}

/** Returns true if a keyboard and a terminal with a movable cursor are available. */
function isScreen(): boolean {
  return Boolean(process.stdin.isTTY && process.stdout.isTTY) && !['', 'dumb'].includes(process.env.TERM ?? '')
}

/** Prints one overview per line. Without an interval, prints only one overview. */
async function stream(read: () => Promise<TopDocument>, intervalMs: number | undefined): Promise<void> {
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
