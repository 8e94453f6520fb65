import { randomInt } from 'node:crypto'
import pg from 'pg'
import { type DemoDatabase, DemoRunner, openDemoDatabase } from '../../demo/index.js'
import { HostsClient } from '../../postgres/index.js'
import { statusOfSignal } from '../child.js'
import { type DashboardServer, defaultPort, serve } from '../dashboard/serve.js'
import { Exit, exitCode, printMessage } from '../failure.js'
import { isPortTaken } from '../listen.js'
import { printJson } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { DemoPrinter } from './printer.js'

const defaultExpiryMs = 4_000
/** Maximum duration of the demo, which is the longest delay that a timer supports. */
const longestSeconds = 2_000_000

/** Runs the demo for its duration or until a signal. Exits with status 1 after an unexpected death or a violation. */
export async function demo(settings: Settings): Promise<void> {
  const seconds = settings.wholeNumber('seconds', 1, longestSeconds)
  const seed = settings.wholeNumber('seed', 0, 2 ** 32 - 1) ?? randomInt(1_000_000)
  const instances = settings.wholeNumber('instances', 2, 20) ?? 5
  const expiryMs = settings.durationMs('expiry', 2_000) ?? defaultExpiryMs
  // Ignores DATABASE_URL, so that the demo does not accidentally run in the database that other commands use.
  const url = settings.fromCommandLine('url')
  const urls = url === undefined ? undefined : { url, directUrl: settings.fromCommandLine('directUrl') }
  // Listens for signals before the database server starts, so that a signal during the start does not leave the server
  // running.
  const interrupted = abortOnSignal()

  await using database = await openDemoDatabase(urls, (message) => printMessage(`holdfast: ${message}`))
  const pool = poolOf(database)
  const dashboard = await serveDashboard(database)
  try {
    const reporter = new DemoPrinter(settings)
    reporter.report({ event: 'started', text: `${database.description} Dashboard: ${dashboard.url}` })
    const runner = new DemoRunner({ database, pool, reporter, seed, instances, expiryMs })
    const outcome = await runner.run(interrupted.signal, (seconds ?? longestSeconds) * 1_000)
    if (settings.flag('json')) printJson<'demo'>(outcome)
    if (outcome.violations > 0 || outcome.died > 0) throw new Exit(exitCode.failed)
  } finally {
    await dashboard.close()
    await pool.end()
  }
}

/** Serves the dashboard on its default port, or on a free port. An idle dashboard runs no queries. */
async function serveDashboard({ url, schema }: DemoDatabase): Promise<DashboardServer> {
  try {
    return await serve({ url, schema }, defaultPort)
  } catch (error) {
    if (!isPortTaken(error)) throw error
    return await serve({ url, schema }, 0)
  }
}

function poolOf({ url, tables }: DemoDatabase): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, Client: HostsClient, max: 10, options: `-c search_path=${tables}` })
  pool.on('error', () => {}) // An idle session has ended. The pool opens another one.
  pool.on('connect', (client) => client.on('error', () => {})) // A session may also end when it is checked out.
  return pool
}

/** Aborts at the first signal. The second signal ends the process and its children immediately. */
function abortOnSignal(): AbortController {
  const controller = new AbortController()
  onSignals(stopSignals, (signal) => {
    if (controller.signal.aborted) process.exit(statusOfSignal(signal))
    controller.abort()
  })
  return controller
}
