import { formatDuration, pause, UsageError } from '../../base/index.js'
import { Holdfast, type HoldfastEvents, type JobDefinition, type Worker } from '../../holdfast.js'
import { statusOfSignal } from '../child.js'
import { connect } from '../connect.js'
import { say } from '../failure.js'
import type { Settings } from '../settings.js'
import { type Exported, exportsOf } from './exports.js'

// biome-ignore lint/suspicious/noExplicitAny: whatever its handler takes and returns
type Definition = JobDefinition<any, any, any>

/** What the instance needs beside the transactions of its handlers. */
const ownConnections = 5
const closeMs = 5_000

/** Runs the jobs that the files define, until it is told to stop. */
export async function work(settings: Settings, files: readonly string[]): Promise<void> {
  const drainMs = settings.durationMs('drain') ?? 20_000
  const concurrency = settings.wholeNumber('concurrency', 1, 10_000) ?? 10
  const queues = settings.list('queue')
  const definitions = definitionsIn(await exportsOf(files))
  // Each handler may have a transaction open, and none of them may keep the instance from recording its end.
  const { pool, schema } = connect(settings, concurrency + ownConnections)
  const stopped = stop()
  // A database that is away must not let this process end.
  const staying = setInterval(() => {}, 2 ** 30)
  let holdfast: Holdfast | undefined
  try {
    holdfast = await Holdfast.open({
      pool,
      schema,
      directUrl: settings.text('directUrl'),
      namespace: settings.text('namespace'),
      expiry: settings.durationMs('expiry', 2_000),
    })
    holdfast.on('job.failed', tellFailure)
    const worker = holdfast.jobs.work(definitions, { concurrency, queues })
    tellBegin(holdfast, definitions, queues, concurrency)
    const signal = await Promise.race([stopped, asked(holdfast)])
    if (signal) await drain(worker, signal, drainMs)
    else await drainAsAsked(holdfast, worker, stopped, drainMs)
  } finally {
    clearInterval(staying)
    // Work that does not heed its signal may keep a connection, and must not keep the process.
    const closed = (holdfast?.close() ?? Promise.resolve()).then(() => pool.end())
    await Promise.race([closed, pause(closeMs)])
  }
}

function definitionsIn(exported: readonly Exported[]): Definition[] {
  const found = new Map<string, Exported & { value: Definition }>()
  for (const { file, value } of exported) {
    if (!isDefinition(value)) continue
    const other = found.get(value.kind)
    if (other && other.value !== value) {
      throw new UsageError(
        `Two definitions are named "${value.kind}": one in ${other.file}, one in ${file}`,
        'Whoever works finds the definition by its name, so names are given once.',
      )
    }
    found.set(value.kind, { file, value })
  }
  if (found.size > 0) return [...found.values()].map(({ value }) => value)
  throw new UsageError(
    'Expected files that export definitions made by defineJob, got none',
    "Such as: export const sendEmail = defineJob('send-email', { run: async (input) => { … } })",
  )
}

/** Known by its members: the file may have another copy of this package. */
function isDefinition(value: unknown): value is Definition {
  const { kind, queue, attempts, run } = (value ?? {}) as Partial<Definition>
  return (
    typeof kind === 'string' && typeof queue === 'string' && typeof attempts === 'number' && typeof run === 'function'
  )
}

/** Resolves with the first signal. The second one ends the process at once; whoever is present takes its jobs over. */
function stop(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      process.on(signal, () => {
        if (isStopping) {
          say(`holdfast: ${signal} again: ends now`)
          process.exit(statusOfSignal(signal))
        }
        isStopping = true
        resolve(signal)
      })
    }
  })
}

/** Resolves, with no signal, when somebody has asked from outside that this instance drain. */
function asked({ draining }: Holdfast): Promise<undefined> {
  return new Promise((resolve) => draining.addEventListener('abort', () => resolve(undefined), { once: true }))
}

/** A signal meanwhile leaves what runs the time that it would have had after a signal alone. */
async function drainAsAsked(
  { drained }: Holdfast,
  { running }: Worker,
  stopped: Promise<NodeJS.Signals>,
  drainMs: number,
): Promise<void> {
  say(
    `holdfast: asked to drain: takes no more jobs; ${running === 0 ? 'none runs' : `${howMany(running)} may come to an end`}`,
  )
  const hurried = stopped.then((signal) => {
    say(`holdfast: ${signal}: what runs may take ${formatDuration(drainMs)} more`)
    return pause(drainMs)
  })
  await Promise.race([drained, hurried])
  say('holdfast: stopped')
}

async function drain(worker: Worker, signal: NodeJS.Signals, drainMs: number): Promise<void> {
  const { running } = worker
  const left = running === 0 ? 'none runs' : `${howMany(running)} may take ${formatDuration(drainMs)} to end`
  say(`holdfast: ${signal}: takes no more jobs; ${left}`)
  const over = setTimeout(() => {
    say(`holdfast: the time is over; ${howMany(worker.running)} told to stop, and given back`)
  }, drainMs)
  await worker.close(drainMs)
  clearTimeout(over)
  say('holdfast: stopped')
}

function tellBegin(
  { id }: Holdfast,
  definitions: readonly Definition[],
  given: readonly string[] | undefined,
  concurrency: number,
): void {
  const queues = [...new Set(given ?? definitions.map(({ queue }) => queue))].map((queue) => JSON.stringify(queue))
  const kinds = definitions.map(({ kind }) => kind).join(', ')
  const where = `the ${queues.length === 1 ? 'queue' : 'queues'} ${queues.join(', ')}`
  say(`holdfast: works on ${where}, ${howMany(concurrency)} at once: ${kinds} (instance ${id})`)
}

function tellFailure({ kind, id, attempt, state, error }: HoldfastEvents['job.failed']): void {
  const said = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  const next = state === 'retried' ? 'it is tried again' : 'the job is buried'
  say(`holdfast: ${kind} ${id}: attempt ${attempt} failed, ${next}: ${said}`)
}

function howMany(jobs: number): string {
  return jobs === 1 ? '1 job' : `${jobs} jobs`
}
