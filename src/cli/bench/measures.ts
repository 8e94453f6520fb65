import { pause } from '../../base/index.js'
import { defineJob, type Holdfast } from '../../index.js'
import type { Database } from '../../postgres/index.js'
import type { Measured, Sample } from '../documents.js'

export interface Measure extends Pick<Measured, 'name' | 'unit' | 'atOnce'> {
  run(context: BenchContext): Promise<Sample>
}

export interface BenchContext {
  readonly database: Database
  readonly holdfast: Holdfast
  readonly ms: number
  readonly signal: AbortSignal
}

const manyCallers = 64
const workers = 100
const pollEveryMs = 5
const batchSize = 1_000
/** Maximum number of jobs to enqueue. Limited, because the last measurement runs all of these jobs. */
const maxJobs = 200_000
const warmUps = 3

/**
 * Returns the measurements in the order in which they run. The last one runs the jobs that the previous one enqueued.
 */
export function makeMeasures(): Measure[] {
  const { enqueue, drain } = backlog()
  return [
    ...operations().flatMap(([name, unit, operation]) =>
      [1, manyCallers].map((atOnce) => ({
        ...{ name, unit, atOnce },
        run: (context: BenchContext) => repeat(context, atOnce, (caller) => operation(context, `bench ${caller}`)),
      })),
    ),
    { name: 'job started', unit: 'jobs', atOnce: 1, run: latency },
    { name: 'job enqueued', unit: 'jobs', atOnce: batchSize, run: enqueue },
    { name: 'job drained', unit: 'jobs', atOnce: workers, run: drain },
  ]
}

type Operation = (context: BenchContext, name: string) => Promise<unknown>

/** Returns the operations that are measured with one caller and with many callers. Each caller has its own name. */
function operations(): [name: string, unit: string, operation: Operation][] {
  let runs = 0
  return [
    ['SQL', 'round trips', ({ database }) => database.query('select 1')],
    ['lock', 'pairs', async ({ holdfast }, name) => (await holdfast.locks.acquire(name)).release()],
    ['lease', 'pairs', async ({ holdfast }, name) => (await holdfast.leases.acquire(name, { ttl: '30s' })).release()],
    ['limit', 'pairs', ({ holdfast }, name) => holdfast.limits.with(name, { max: 1 }, () => {})],
    ['once', 'runs', ({ holdfast }) => holdfast.once.run(`bench ${runs++}`, () => 1)],
  ]
}

/** Measures the time from the call that enqueues a job until an idle worker starts its handler. */
async function latency(context: BenchContext): Promise<Sample> {
  let onStarted = () => {}
  const job = defineJob('bench-latency', { queue: 'bench-latency', run: () => onStarted() })
  const worker = context.holdfast.jobs.work([job], { concurrency: 1 })
  try {
    return await repeat(context, 1, async () => {
      const started = new Promise<void>((resolve) => {
        onStarted = resolve
      })
      await context.holdfast.jobs.enqueue(job)
      await started
    })
  } finally {
    await worker.close()
  }
}

/** Enqueues jobs that do nothing as fast as possible, and then runs them. */
function backlog() {
  let waiting = 0
  let done = 0
  const job = defineJob('bench', {
    queue: 'bench',
    run: () => {
      done++
    },
  })
  const enqueue = async ({ holdfast, ms, signal }: BenchContext): Promise<Sample> => {
    const inputs = Array.from({ length: batchSize }, () => null)
    const began = performance.now()
    while (performance.now() - began < ms && waiting < maxJobs) {
      signal.throwIfAborted()
      await holdfast.jobs.enqueueMany(job, inputs)
      waiting += batchSize
    }
    return { perSecond: perSecond(waiting, performance.now() - began), p50Ms: null, p99Ms: null }
  }
  const drain = async ({ holdfast, ms, signal }: BenchContext): Promise<Sample> => {
    const began = performance.now()
    const worker = holdfast.jobs.work([job], { concurrency: workers })
    while (done < waiting && performance.now() - began < ms && !signal.aborted) await pause(pollEveryMs)
    // Closing the worker records the jobs that have finished.
    await worker.close()
    signal.throwIfAborted()
    return { perSecond: perSecond(done, performance.now() - began), p50Ms: null, p99Ms: null }
  }
  return { enqueue, drain }
}

/** Runs an operation in a loop for `ms` milliseconds with `atOnce` concurrent callers. */
async function repeat(
  { ms, signal }: BenchContext,
  atOnce: number,
  operation: (caller: number) => Promise<unknown>,
): Promise<Sample> {
  const all = Array.from({ length: atOnce }, (_, caller) => caller)
  // Opens the connections and prepares the statements before the measurement starts.
  for (let times = 0; times < warmUps; times++) await Promise.all(all.map(operation))
  const took: number[] = []
  const began = performance.now()
  const callers = all.map(async (caller) => {
    for (let from = performance.now(); from - began < ms; ) {
      signal.throwIfAborted()
      await operation(caller)
      const to = performance.now()
      took.push(to - from)
      from = to
    }
  })
  await Promise.all(callers)
  const elapsed = performance.now() - began
  took.sort((a, b) => a - b)
  return { perSecond: perSecond(took.length, elapsed), p50Ms: quantile(took, 0.5), p99Ms: quantile(took, 0.99) }
}

function perSecond(count: number, ms: number): number {
  return Math.round((count / ms) * 1_000)
}

function quantile(sorted: readonly number[], part: number): number {
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]! * 1_000) / 1_000
}
