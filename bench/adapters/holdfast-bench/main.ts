// Adapter for the benchmark hardbyte/postgresql-job-queue-benchmarking, which compares job queues on PostgreSQL. Runs a producer and a worker in
// one process, reads `ENQUEUE <n>` from stdin, and prints one JSON line for each sample, as its CONTRIBUTING_ADAPTERS.md describes. Uses only
// Holdfast's public interface and its default settings. Each job runs in its own handler call and ends on its own.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createHistogram, performance, type RecordableHistogram } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast } from 'holdfast'
import { metricsText } from 'holdfast/telemetry'
import pg from 'pg'
import manifest from './adapter.json' with { type: 'json' }

const setting = (name: string, otherwise: string) => process.env[name] ?? otherwise
const number = (name: string, otherwise: number) => Number(setting(name, String(otherwise)))

const url = setting('DATABASE_URL', '')
const sampleEveryS = number('SAMPLE_EVERY_S', 5)
const baseRate = number('PRODUCER_RATE', 800)
const targetDepth = number('TARGET_DEPTH', 1_000)
const concurrency = number('WORKER_COUNT', 32)
const workMs = number('JOB_WORK_MS', 1)
const batchMs = number('PRODUCER_BATCH_MS', 25)
const maxBatch = number('PRODUCER_BATCH_MAX', 128)
const instanceId = number('BENCH_INSTANCE_ID', 0)
const padding = 'x'.repeat(Math.max(0, number('JOB_PAYLOAD_BYTES', 256) - 48))
const windowS = 30

if (setting('SCENARIO', 'long_horizon') !== 'long_horizon') throw new Error('Expected SCENARIO=long_horizon')

const print = (record: object) => process.stdout.write(`${JSON.stringify({ instance_id: instanceId, ...record })}\n`)

/** Latencies of the last 30 s, with three significant figures. Each sample interval has its own histogram. */
class Latencies {
  #intervals: RecordableHistogram[] = [createHistogram()]

  record(ms: number, count = 1) {
    const micros = Math.max(1, Math.round(ms * 1_000))
    for (let i = 0; i < count; i++) this.#intervals[0]!.record(micros)
  }

  /** Returns the percentiles in milliseconds, and starts a new interval. */
  read() {
    const all = createHistogram()
    for (const interval of this.#intervals) all.add(interval)
    this.#intervals = [createHistogram(), ...this.#intervals].slice(0, Math.ceil(windowS / sampleEveryS))
    return [50, 95, 99].map((rank) => [rank, all.count === 0 ? 0 : all.percentile(rank) / 1_000] as const)
  }
}

interface Payload {
  readonly seq: number
  readonly enqueuedAt: number
  readonly padding: string
}

const latencies = {
  producer: new Latencies(),
  producer_call: new Latencies(),
  subscriber: new Latencies(),
  end_to_end: new Latencies(),
}
let [enqueued, completed, seq, depth] = [0, 0, 0, 0]

const job = defineJob('bench', {
  run: async ({ enqueuedAt }: Payload) => {
    latencies.subscriber.record(Date.now() - enqueuedAt)
    if (workMs > 0) await sleep(workMs)
    latencies.end_to_end.record(Date.now() - enqueuedAt)
    completed++
  },
})

const holdfast = await Holdfast.open({ url, namespace: 'bench' })
const worker = holdfast.jobs.work([job], { concurrency })
await worker.ready()

let isStopping = false
async function enqueue(count: number) {
  const inputs = Array.from({ length: count }, () => ({ seq: seq++, enqueuedAt: Date.now(), padding }))
  const startedAt = performance.now()
  try {
    await holdfast.jobs.enqueueMany(job, inputs)
    const ms = performance.now() - startedAt
    latencies.producer_call.record(ms)
    latencies.producer.record(ms / count, count)
    enqueued += count
  } catch (error) {
    // The server may be restarting. The load that is due now is lost, as in the other adapters.
    if (isStopping) return
    console.error(error)
    await sleep(200)
  }
}

/** The harness writes the current rate to a file, and changes it in phases with a high load. */
function currentRate() {
  const file = process.env.PRODUCER_RATE_CONTROL_FILE
  return (file && Number(readFileSync(file, 'utf8'))) || baseRate
}

/** Enqueues what is due according to the time that has passed, at most `maxBatch` jobs per call. */
async function produceAtRate() {
  let [credit, last] = [0, performance.now()]
  while (!isStopping) {
    await sleep(batchMs)
    const now = performance.now()
    credit += (currentRate() * (now - last)) / 1_000
    last = now
    for (; credit >= 1 && !isStopping; credit -= Math.min(Math.floor(credit), maxBatch)) {
      await enqueue(Math.min(Math.floor(credit), maxBatch))
    }
  }
}

/** Keeps `targetDepth` jobs enqueued. The count is this process's own, so that reading it costs no query. */
async function produceToDepth() {
  while (!isStopping) {
    const missing = Math.min(maxBatch, targetDepth - (enqueued - completed))
    if (missing > 0) await enqueue(missing)
    else await sleep(1)
  }
}

async function produceAsTold() {
  for await (const line of createInterface({ input: process.stdin })) {
    const count = Number(/^ENQUEUE (\d+)$/.exec(line)?.[1])
    if (count > 0 && !isStopping) await enqueue(count)
  }
}

/** Reads how many jobs are ready, as Prometheus would. */
async function observeDepth() {
  while (!isStopping) {
    const text = await metricsText(holdfast).catch(() => '')
    depth = Number(/^holdfast_queue_ready\{.*\} (\d+)/m.exec(text)?.[1] ?? depth)
    await sleep(1_000)
  }
}

function sample() {
  const t = new Date().toISOString()
  const emit = (metric: string, value: number, window_s: number) =>
    print({
      t,
      system: manifest.system,
      kind: 'adapter',
      subject_kind: 'adapter',
      subject: '',
      metric,
      value,
      window_s,
    })
  for (const [name, one] of Object.entries(latencies)) {
    for (const [rank, ms] of one.read()) {
      emit(`${name}_p${rank}_ms`, ms, windowS)
      if (name === 'subscriber') emit(`claim_p${rank}_ms`, ms, windowS)
    }
  }
  emit('enqueue_rate', (enqueued - last.enqueued) / sampleEveryS, sampleEveryS)
  emit('completion_rate', (completed - last.completed) / sampleEveryS, sampleEveryS)
  last = { enqueued, completed }
  // Only one replica reports what holds for all.
  if (instanceId > 0) return
  emit('queue_depth', depth, 0)
  emit('producer_target_rate', currentRate(), 0)
}

/** Tables with rows that change. The harness polls their dead rows, which it cannot do for a partitioned table. */
async function eventTables() {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query(`
      select format('%s.%s', relnamespace::regnamespace, relname) as name from pg_class
      where relnamespace = 'holdfast'::regnamespace and relkind = 'r' and relname ~ '^(job|job_end|claim|worker|frontier)(_|$)'
      order by relname ~ '^job_\\d' desc, relname`)
    return rows.map(({ name }) => name as string)
  } finally {
    await client.end()
  }
}

const { version } = createRequire(import.meta.url)('holdfast/package.json') as { version: string }
print({
  kind: 'descriptor',
  system: manifest.system,
  event_tables: await eventTables(),
  extensions: [],
  version: `holdfast@${version}`,
  schema_version: version,
  db_name: manifest.db_name,
  started_at: new Date().toISOString(),
})

const periodMs = sampleEveryS * 1_000
let last = { enqueued, completed }
setTimeout(
  () => {
    sample()
    setInterval(sample, periodMs)
  },
  periodMs - (Date.now() % periodMs),
)

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, async () => {
    isStopping = true
    await worker.close({ within: '3s' })
    await holdfast.close()
    process.exit(0)
  })
}

const isDepthTarget = setting('PRODUCER_MODE', 'fixed') === 'depth-target'
const isPacedByHarness = setting('PRODUCER_PACING', 'harness') === 'harness'
void observeDepth()
await (isDepthTarget ? produceToDepth() : isPacedByHarness ? produceAsTold() : produceAtRate())
