import { randomInt } from 'node:crypto'
import pg from 'pg'
import { type DemoDatabase, DemoRunner, openDemoDatabase } from '../../demo/index.js'
import { HostsClient } from '../../postgres/index.js'
import { statusOfSignal } from '../child.js'
import { type DashboardServer, defaultPort, isPortTaken, serve } from '../dashboard/serve.js'
import { Exit, exitCode, printMessage } from '../failure.js'
import { printJson } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { DemoPrinter } from './printer.js'

const defaultExpiryMs = 4_000
/** As long as a timer can be. Nobody watches for longer. */
const longestSeconds = 2_000_000

/** The company, until its time is over or somebody interrupts it; exits with 1 when a promise was broken. */
export async function demo(settings: Settings): Promise<void> {
  const seconds = settings.wholeNumber('seconds', 1, longestSeconds)
  const seed = settings.wholeNumber('seed', 0, 2 ** 32 - 1) ?? randomInt(1_000_000)
  const instances = settings.wholeNumber('instances', 2, 20) ?? 5
  const expiryMs = settings.durationMs('expiry', 2_000) ?? defaultExpiryMs
  // Not what the environment says of the database that other commands are for.
  const url = settings.fromCommandLine('url')
  const urls = url === undefined ? undefined : { url, directUrl: settings.fromCommandLine('directUrl') }
  // Listened for before the start: a signal in its middle must not leave a server behind.
  const over = abortOnSignal()

  await using ground = await openDemoDatabase(urls, (message) => printMessage(`holdfast: ${message}`))
  const pool = poolOf(ground)
  const dashboard = await serveDashboard(ground)
  try {
    const reporter = new DemoPrinter(settings)
    reporter.report({ event: 'started', text: `${ground.description} Watch it at ${dashboard.url}` })
    const conductor = new DemoRunner({ database: ground, pool, reporter, seed, instances, expiryMs })
    const outcome = await conductor.run(over.signal, (seconds ?? longestSeconds) * 1_000)
    if (settings.flag('json')) printJson<'demo'>(outcome)
    if (outcome.violations > 0 || outcome.died > 0) throw new Exit(exitCode.failed)
  } finally {
    await dashboard.close()
    await pool.end()
  }
}

/** The dashboard, on its usual port where that is free. It asks nothing of the database as long as nobody comes. */
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
  pool.on('error', () => {}) // A session that ended while it was idle: the pool opens another.
  pool.on('connect', (client) => client.on('error', () => {})) // And one that ends just when somebody is given it.
  return pool
}

/** Aborts at the first signal. The second one ends the process at once, and with it all that it has started. */
function abortOnSignal(): AbortController {
  const over = new AbortController()
  onSignals(stopSignals, (signal) => {
    if (over.signal.aborted) process.exit(statusOfSignal(signal))
    over.abort()
  })
  return over
}
