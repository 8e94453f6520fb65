import { errorLine, formatDuration, longestTimerMs, pause } from '../../base/index.js'
import { Holdfast, type HoldfastEvents, type Schedule, type Worker } from '../../index.js'
import { statusOfSignal } from '../child.js'
import { connect } from '../connect.js'
import { say } from '../failure.js'
import type { Settings } from '../settings.js'
import { onSignals, stopSignals } from '../signals.js'
import { type Definitions, definitionsIn } from './definitions.js'
import { exportsOf } from './exports.js'

/** What the instance needs beside the transactions of its handlers. */
const ownConnections = 5
const closeMs = 5_000

/** What has been started. */
interface Started {
  readonly worker: Worker | undefined
  readonly schedules: readonly Schedule[]
}

/** Runs the jobs and schedules that the files define, until it is told to stop. */
export async function work(settings: Settings, files: readonly string[]): Promise<void> {
  const drainMs = settings.durationMs('drain', 0, longestTimerMs) ?? 20_000
  const concurrency = settings.wholeNumber('concurrency', 1, 10_000) ?? 10
  const queues = settings.list('queue')
  const definitions = definitionsIn(await exportsOf(files))
  // Each handler may have a transaction open, and none of them may keep the instance from recording its end.
  const { pool, schema } = connect(settings, concurrency + definitions.schedules.length + ownConnections)
  const stopped = stop()
  // A database that is away must not let this process end.
  const staying = setInterval(() => {}, 2 ** 30)
  let holdfast: Holdfast | undefined
  try {
    holdfast = await Holdfast.open({
      pool,
      schema,
      directUrl: settings.text('directUrl'),
      namespace: settings.name('namespace'),
      expiry: settings.durationMs('expiry', 2_000),
    })
    holdfast.on('job.failed', tellFailure)
    holdfast.on('schedule.failed', tellFailedRun)
    const started = begin(holdfast, definitions, queues, concurrency)
    const signal = await Promise.race([stopped, asked(holdfast)])
    if (signal) await drain(started, signal, drainMs)
    else await drainAsAsked(holdfast, started, stopped, drainMs)
  } finally {
    clearInterval(staying)
    // Work that does not heed its signal may keep a connection, and must not keep the process.
    const closed = (holdfast?.close() ?? Promise.resolve()).then(() => pool.end())
    await Promise.race([closed, pause(closeMs)])
  }
}

function begin(
  { id, jobs, schedules }: Holdfast,
  definitions: Definitions,
  given: readonly string[] | undefined,
  concurrency: number,
): Started {
  const parts: string[] = []
  let worker: Worker | undefined
  if (definitions.jobs.length > 0) {
    worker = jobs.work(definitions.jobs, { concurrency, queues: given })
    const queues = [...new Set(given ?? definitions.jobs.map(({ queue }) => queue))].map((queue) =>
      JSON.stringify(queue),
    )
    const kinds = definitions.jobs.map(({ kind }) => kind).join(', ')
    const where = `the ${queues.length === 1 ? 'queue' : 'queues'} ${queues.join(', ')}`
    parts.push(`works on ${where}, ${howMany(concurrency, 'job')} at once: ${kinds}`)
  }
  const added = definitions.schedules.map((definition) => schedules.add(definition))
  if (added.length > 0) parts.push(`takes part in ${added.map(({ name }) => name).join(', ')}`)
  for (const part of parts) say(`holdfast: ${part} (instance ${id})`)
  return { worker, schedules: added }
}

/** Resolves with the first signal. The second one ends the process at once; whoever is present takes its jobs over. */
function stop(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false
    onSignals(stopSignals, (signal) => {
      if (isStopping) {
        say(`holdfast: ${signal} again: ends now`)
        process.exit(statusOfSignal(signal))
      }
      isStopping = true
      resolve(signal)
    })
  })
}

/** Resolves, with no signal, when somebody has asked from outside that this instance drain. */
function asked({ draining }: Holdfast): Promise<undefined> {
  return new Promise((resolve) => draining.addEventListener('abort', () => resolve(undefined), { once: true }))
}

/** A signal meanwhile leaves what runs the time that it would have had after a signal alone. */
async function drainAsAsked(
  { drained }: Holdfast,
  started: Started,
  stopped: Promise<NodeJS.Signals>,
  drainMs: number,
): Promise<void> {
  const running = runningIn(started)
  say(`holdfast: asked to drain: takes no more ${kindsOf(started)}; ${running ?? 'none'} may come to an end`)
  const hurried = stopped.then((signal) => {
    say(`holdfast: ${signal}: what runs may take ${formatDuration(drainMs)} more`)
    return pause(drainMs)
  })
  await Promise.race([drained, hurried])
  say('holdfast: stopped')
}

async function drain(started: Started, signal: NodeJS.Signals, drainMs: number): Promise<void> {
  const { worker, schedules } = started
  const running = runningIn(started)
  const may = running ? `${running} may take ${formatDuration(drainMs)} to end` : 'none runs'
  say(`holdfast: ${signal}: takes no more ${kindsOf(started)}; ${may}`)
  const over = setTimeout(() => {
    say(`holdfast: the time is over; ${runningIn(started) ?? 'none'} told to stop, and given back`)
  }, drainMs)
  await Promise.all([
    worker?.close({ within: drainMs }),
    ...schedules.map((schedule) => schedule.close({ within: drainMs })),
  ])
  clearTimeout(over)
  say('holdfast: stopped')
}

/** What it takes, in words. */
function kindsOf({ worker, schedules }: Started): string {
  return [worker ? 'jobs' : '', schedules.length > 0 ? 'ticks' : ''].filter((word) => word !== '').join(' and ')
}

/** What runs just now, in words; undefined if nothing does. */
function runningIn({ worker, schedules }: Started): string | undefined {
  const jobs = worker?.running ?? 0
  const runs = schedules.reduce((sum, { running }) => sum + running, 0)
  const words = [jobs > 0 ? howMany(jobs, 'job') : '', runs > 0 ? howMany(runs, 'run') : ''].filter(
    (word) => word !== '',
  )
  return words.length > 0 ? words.join(' and ') : undefined
}

function tellFailure({ kind, id, attempt, state, error }: HoldfastEvents['job.failed']): void {
  const next = state === 'retried' ? 'it is tried again' : 'the job is buried'
  say(`holdfast: ${kind} ${id}: attempt ${attempt} failed, ${next}: ${errorLine(error)}`)
}

function tellFailedRun({ name, tick, attempt, error }: HoldfastEvents['schedule.failed']): void {
  const again = attempt > 1 ? `, attempt ${attempt},` : ''
  say(`holdfast: ${name} ${tick.toISOString()}${again} failed: ${errorLine(error)}`)
}

function howMany(count: number, what: 'job' | 'run'): string {
  return count === 1 ? `1 ${what}` : `${count} ${what}s`
}
