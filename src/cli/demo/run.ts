import { randomInt } from 'node:crypto'
import pg from 'pg'
import { type DemoDatabase, DemoRunner, introduction, nextSteps, openDemoDatabase } from '../../demo/index.js'
import { addressOf, HostsClient } from '../../postgres/index.js'
import { statusOfSignal } from '../child.js'
import { type DashboardServer, defaultPort, serve } from '../dashboard/serve.js'
import { Exit, exitCode, printMessage } from '../failure.js'
import { isPortTaken } from '../listen.js'
import { printJson } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { openInBrowser } from './browser.js'
import { killButton } from './kill-button.js'
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
  const isWithout = settings.flag('without')
  // Ignores DATABASE_URL, so that the demo does not accidentally run in the database that other commands use.
  const url = settings.fromCommandLine('url')
  const urls = url === undefined ? undefined : { url, directUrl: settings.fromCommandLine('directUrl') }
  // Listens for signals before the database server starts, so that a signal during the start does not leave the server
  // running.
  const interrupted = abortOnSignal()

  await using database = await openDemoDatabase(urls, (message) => printMessage(`holdfast: ${message}`))
  const pools = {
    pool: poolOf(database.url, database.tables),
    poolWithout: isWithout ? poolOf(database.url, database.tablesWithout) : undefined,
  }
  using reporter = new DemoPrinter(settings)
  const runner = new DemoRunner({ database, ...pools, reporter, seed, instances, expiryMs })
  const dashboard = await serveDashboard(database, () => runner.killOne())
  try {
    const isUrlShown = settings.flag('showUrl')
    reporter.start(
      introduction(instances, isWithout),
      [
        [
          'dashboard',
          `${dashboard.url} Kill a process there yourself.${settings.flag('open') ? '' : ' --open opens it.'}`,
        ],
        ...(isWithout ? [] : [['compare', 'holdfast demo --without'] as const]),
        ['database', isUrlShown ? database.url : `${database.description}${url ? '' : ' --show-url shows its URL.'}`],
        ['stop', `Ctrl-C. --seed ${seed} repeats the same faults.`],
      ],
      // The URL of the user's database contains a password, and the user already knows the URL.
      { dashboard: dashboard.url, database: url && !isUrlShown ? addressOf({ connectionString: url }) : database.url },
    )
    if (settings.flag('open')) openInBrowser(dashboard.url)
    const outcome = await runner.run(interrupted.signal, (seconds ?? longestSeconds) * 1_000)
    if (settings.flag('json')) printJson<'demo'>(outcome)
    reporter.end(nextSteps)
    if (outcome.violations > 0 || outcome.died > 0) throw new Exit(exitCode.failed)
  } finally {
    await dashboard.close()
    await Promise.all([pools.pool.end(), pools.poolWithout?.end()])
  }
}

/** Serves the dashboard with a kill button on its default port, or on a free port. An idle dashboard runs no queries. */
async function serveDashboard(
  { url, schema }: DemoDatabase,
  killOne: () => Promise<string | undefined>,
): Promise<DashboardServer> {
  const extension = killButton(killOne)
  try {
    return await serve({ url, schema }, defaultPort, { extension })
  } catch (error) {
    if (!isPortTaken(error)) throw error
    return await serve({ url, schema }, 0, { extension })
  }
}

function poolOf(url: string, tables: string): pg.Pool {
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
