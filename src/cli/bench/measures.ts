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
  /** Aborts when somebody has had enough. */
  readonly signal: AbortSignal
}

const manyCallers = 64
const workers = 100
const pollEveryMs = 5
const batchSize = 1_000
/** What a run enqueues at most: it is also to be drained. */
const maxJobs = 200_000
const warmUps = 3

/** In the order in which they are run: what is drained was enqueued before. */
export function makeMeasures(): Measure[] {
  const { enqueue, drain } = backlog()
  return [
    { name: 'SQL', unit: 'round trips', atOnce: 1, run: sql(1) },
    { name: 'SQL', unit: 'round trips', atOnce: manyCallers, run: sql(manyCallers) },
    { name: 'lock', unit: 'pairs', atOnce: 1, run: locks(1) },
    { name: 'lock', unit: 'pairs', atOnce: manyCallers, run: locks(manyCallers) },
    { name: 'lease', unit: 'pairs', atOnce: 1, run: leases(1) },
    { name: 'lease', unit: 'pairs', atOnce: manyCallers, run: leases(manyCallers) },
    { name: 'limit', unit: 'pairs', atOnce: 1, run: limits(1) },
    { name: 'limit', unit: 'pairs', atOnce: manyCallers, run: limits(manyCallers) },
    { name: 'once', unit: 'runs', atOnce: 1, run: once(1) },
    { name: 'once', unit: 'runs', atOnce: manyCallers, run: once(manyCallers) },
    { name: 'job begins', unit: 'jobs', atOnce: 1, run: latency },
    { name: 'job enqueued', unit: 'jobs', atOnce: batchSize, run: enqueue },
    { name: 'job drained', unit: 'jobs', atOnce: workers, run: drain },
  ]
}

function sql(atOnce: number) {
  return (context: BenchContext) => repeat(context, atOnce, () => context.database.query('select 1'))
}

function locks(atOnce: number) {
  return (context: BenchContext) =>
    repeat(context, atOnce, async (caller) => {
      const lock = await context.holdfast.locks.acquire(`bench ${caller}`)
      await lock.release()
    })
}

function leases(atOnce: number) {
  return (context: BenchContext) =>
    repeat(context, atOnce, async (caller) => {
      const lease = await context.holdfast.leases.acquire(`bench ${caller}`, { ttl: '30s' })
      await lease.release()
    })
}

function limits(atOnce: number) {
  return (context: BenchContext) =>
    repeat(context, atOnce, (caller) => context.holdfast.limits.with(`bench ${caller}`, { max: 1 }, () => {}))
}

function once(atOnce: number) {
  let runs = 0
  return (context: BenchContext) =>
    repeat(context, atOnce, () => context.holdfast.once.run(`bench ${atOnce} ${runs++}`, () => 1))
}

/** From the call that enqueues a job to the begin of its handler, with nothing else to do. */
async function latency(context: BenchContext): Promise<Sample> {
  let onStarted = () => {}
  const job = defineJob('bench-latency', { queue: 'bench-latency', run: () => onStarted() })
  const worker = context.holdfast.jobs.work([job], { concurrency: 1 })
  try {
    return await repeat(context, 1, async () => {
      const started = new Promise<void>((resolve) => {
        onStarted = resolve
      })
      await context.holdfast.jobs.enqueue(job, null)
      await started
    })
  } finally {
    await worker.close()
  }
}

/** Jobs that do nothing: enqueued as fast as they can be, and then worked off. */
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
    // What was done is written down when the worker is closed.
    await worker.close()
    signal.throwIfAborted()
    return { perSecond: perSecond(done, performance.now() - began), p50Ms: null, p99Ms: null }
  }
  return { enqueue, drain }
}

/** So many callers do it again and again until the time is over. */
async function repeat(
  { ms, signal }: BenchContext,
  atOnce: number,
  operation: (caller: number) => Promise<unknown>,
): Promise<Sample> {
  const all = Array.from({ length: atOnce }, (_, caller) => caller)
  // Connections are made, and statements prepared, before anything is measured.
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
