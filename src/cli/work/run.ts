import { defaultTimes, formatDuration, maxTimerMs, pause } from '../../base/index.js'
import { Holdfast, type Schedule, type Worker } from '../../index.js'
import { statusOfSignal } from '../child.js'
import { ignoreClosedStdout } from '../closed-stdout.js'
import { connect } from '../connect.js'
import { printMessage } from '../failure.js'
import { countText } from '../output.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { type Definitions, findDefinitions } from './definitions.js'
import { loadExports } from './exports.js'
import { type MonitoringServer, serveMonitoring } from './monitoring.js'

/** Number of connections that the instance needs in addition to those for the handlers' transactions. */
const reservedConnections = 5
const closeMs = 5_000

interface StartedWork {
  readonly worker: Worker | undefined
  readonly schedules: readonly Schedule[]
}

/** Runs the jobs and schedules that the files define, until a signal or a drain request arrives. */
export async function work(settings: Settings, files: readonly string[]): Promise<void> {
  const drainMs = settings.durationMs('drain', 0, maxTimerMs) ?? defaultTimes.workDrainMs
  const concurrency = settings.wholeNumber('concurrency', 1, 10_000) ?? 10
  const queues = settings.list('queue')
  const metricsPort = settings.wholeNumber('metricsPort', 0, 65_535)
  const definitions = findDefinitions(await loadExports(files))
  // Each handler may use one connection for its transaction. The instance needs further connections to record the
  // results.
  const { pool, schema } = connect(settings, concurrency + definitions.schedules.length + reservedConnections)
  const signaled = firstSignal()
  // A handler may write to stdout. A closed stdout must not end the other jobs.
  ignoreClosedStdout()
  // Keeps the process running while the database is unreachable.
  const keepAliveTimer = setInterval(() => {}, 2 ** 30)
  let holdfast: Holdfast | undefined
  let monitoring: MonitoringServer | undefined
  try {
    const opening = Holdfast.open({
      pool,
      schema,
      directUrl: settings.text('directUrl'),
      namespace: settings.name('namespace'),
      expiry: settings.durationMs('expiry', 2_000),
      log: { warn: printMessage, error: printMessage },
    })
    const first = await Promise.race([opening, signaled])
    if (!(first instanceof Holdfast)) return printMessage(`holdfast: received ${first} before the work started`)
    holdfast = first
    // The metrics are served before the work starts, so that they count all of the work.
    if (metricsPort !== undefined) monitoring = await serveMonitoring(holdfast, metricsPort)
    const started = start(holdfast, definitions, queues, concurrency)
    const signal = await Promise.race([signaled, drainRequested(holdfast)])
    if (signal) await drain(started, signal, drainMs)
    else await drainOnRequest(holdfast, started, signaled, drainMs)
  } finally {
    clearInterval(keepAliveTimer)
    monitoring?.close()
    // A handler that ignores its signal may keep a connection open. Such a connection must not keep the process
    // running. Before `holdfast` is set, nothing is running, so this process can exit immediately.
    const closed = (holdfast?.close() ?? Promise.resolve()).then(() => pool.end())
    await Promise.race([closed, pause(holdfast ? closeMs : 0)])
  }
}

function start(
  { name, jobs, schedules }: Holdfast,
  definitions: Definitions,
  given: readonly string[] | undefined,
  concurrency: number,
): StartedWork {
  const parts: string[] = []
  let worker: Worker | undefined
  if (definitions.jobs.length > 0) {
    worker = jobs.work(definitions.jobs, { concurrency, queues: given })
    const queues = [...new Set(given ?? definitions.jobs.map(({ queue }) => queue))].map((queue) =>
      JSON.stringify(queue),
    )
    const kinds = definitions.jobs.map(({ kind }) => kind).join(', ')
    const where = `the ${queues.length === 1 ? 'queue' : 'queues'} ${queues.join(', ')}`
    parts.push(`working on ${where}, up to ${countText(concurrency, 'job')} at a time: ${kinds}`)
  }
  const added = definitions.schedules.map((definition) => schedules.add(definition))
  if (added.length > 0)
    parts.push(
      `running the ${added.length === 1 ? 'schedule' : 'schedules'} ${added.map((schedule) => schedule.name).join(', ')}`,
    )
  for (const part of parts) printMessage(`holdfast: ${part} (instance ${name})`)
  return { worker, schedules: added }
}

/** Resolves with the first signal. The second signal ends the process immediately, and other instances take over its jobs. */
function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false
    onSignals(stopSignals, (signal) => {
      if (isStopping) {
        printMessage(`holdfast: received ${signal} again, exiting now`)
        process.exit(statusOfSignal(signal))
      }
      isStopping = true
      resolve(signal)
    })
  })
}

/** Resolves with undefined when an operator asks this instance to drain. */
function drainRequested({ draining }: Holdfast): Promise<undefined> {
  return new Promise((resolve) => draining.addEventListener('abort', () => resolve(undefined), { once: true }))
}

/** Waits until the instance is drained. After a signal, waits at most `drainMs` longer. */
async function drainOnRequest(
  { drained }: Holdfast,
  started: StartedWork,
  stopped: Promise<NodeJS.Signals>,
  drainMs: number,
): Promise<void> {
  const running = runningText(started)
  printMessage(
    `holdfast: drain requested: claiming no more ${kindsText(started)}; ${running ? `${running} may finish` : 'nothing is running'}`,
  )
  const signalTimeout = stopped.then((signal) => {
    printMessage(`holdfast: received ${signal}: running work has ${formatDuration(drainMs)} to finish`)
    return pause(drainMs)
  })
  await Promise.race([drained, signalTimeout])
  printMessage('holdfast: stopped')
}

async function drain(started: StartedWork, signal: NodeJS.Signals, drainMs: number): Promise<void> {
  const { worker, schedules } = started
  const running = runningText(started)
  const deadlineText = running ? `${running} may take up to ${formatDuration(drainMs)} to finish` : 'nothing is running'
  printMessage(`holdfast: received ${signal}: claiming no more ${kindsText(started)}; ${deadlineText}`)
  const timer = setTimeout(() => {
    printMessage(
      `holdfast: the drain timed out; asking ${runningText(started) ?? 'the work'} to stop and returning the work to the queue`,
    )
  }, drainMs)
  await Promise.all([
    worker?.close({ within: drainMs }),
    ...schedules.map((schedule) => schedule.close({ within: drainMs })),
  ])
  clearTimeout(timer)
  printMessage('holdfast: stopped')
}

function kindsText({ worker, schedules }: StartedWork): string {
  return [worker ? 'jobs' : '', schedules.length > 0 ? 'ticks' : ''].filter((word) => word !== '').join(' and ')
}

/** Describes the running work. Undefined if nothing is running. */
function runningText({ worker, schedules }: StartedWork): string | undefined {
  const jobs = worker?.running ?? 0
  const runs = schedules.reduce((sum, { running }) => sum + running, 0)
  const words = [jobs > 0 ? countText(jobs, 'job') : '', runs > 0 ? countText(runs, 'run') : ''].filter(
    (word) => word !== '',
  )
  return words.length > 0 ? words.join(' and ') : undefined
}
