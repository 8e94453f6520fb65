// Measures throughput with two loads: a backlog that workers drain, and a backlog that the bench refills while workers run.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { middle, type Outcomes } from '../compare.ts'
import { ownCpuMs } from '../cpu.ts'
import type { ServerOptions } from '../server.ts'
import { table } from '../table.ts'
import type { Payload } from './contestants.ts'
import { each, type Fixture, withFixture } from './fixture.ts'

const batchSize = 1_000
const backlog = 20_000

interface Progress {
  at: number
  done: number
}

/** Maximum duration of a drain. A slower contestant's rate is based on the jobs that it has run by then. */
const maxDrainMs = 20_000

/** Payloads of `bytes` bytes each. PostgreSQL stores a long repeated letter in a few bytes, but cannot compress random text. */
export function payloads(count: number, bytes = 100, isRandom = false): Payload[] {
  const length = Math.max(0, bytes - 24)
  const text = isRandom ? randomBytes(length).toString('base64').slice(0, length) : 'x'.repeat(length)
  return Array.from({ length: count }, (_, at) => ({ at, text }))
}

interface DrainLoad {
  jobs: number
  processes?: number
  handlerMs?: number
  concurrency?: number
  bytes?: number
  isRandom?: boolean
  delayed?: number
  hot?: number
  server?: ServerOptions
}

/** Result of a load. Only `drain` sets `bulkPerSecond`. Only `sustain` sets `first` and `last`, the rates of the first and the last quarter. */
export interface Throughput {
  perSecond: number
  bulkPerSecond?: number
  first?: number
  last?: number
  done?: number
  each: ReturnType<typeof each>
}

/**
 * Enqueues `jobs` jobs and then starts the processes. Before that, it enqueues `delayed` jobs with a delay of one day,
 * and `hot` jobs in one lane whose first job never ends.
 */
export function drain(name: string, load: DrainLoad): Promise<Throughput> {
  const { jobs, processes = 1, handlerMs = 0, concurrency, bytes, isRandom, delayed = 0, hot = 0, server } = load
  const measure = async ({ queue, workers, usage }: Fixture) => {
    for (let left = delayed; left > 0; left -= 5_000) {
      await queue.enqueueMany(payloads(Math.min(5_000, left)), { delayMs: 86_400_000 })
    }
    if (hot > 0) await queue.enqueueMany([{ isEndless: true }], { lane: 'hot' })
    for (let left = hot; left > 0; left -= 5_000) {
      const some = payloads(Math.min(5_000, left)).map((one) => ({ ...one, isHot: true }))
      await queue.enqueueMany(some, { lane: 'hot' })
    }
    const enqueueFrom = performance.now()
    const some = payloads(batchSize, bytes, isRandom)
    for (let left = jobs; left > 0; left -= 2 * batchSize) {
      await Promise.all([queue.enqueueMany(some), left > batchSize && queue.enqueueMany(some)])
    }
    const bulkPerSecond = (jobs / (performance.now() - enqueueFrom)) * 1_000
    const crew = await workers({ count: processes, handlerMs, concurrency, hasLanes: hot > 0 })
    const [before, cpuMs] = [await usage(), crew.cpuMs()]
    const from = performance.now()
    crew.begin()
    while (crew.done() < jobs && performance.now() - from < maxDrainMs) await sleep(5)
    const [done, tookMs, clientMs] = [crew.done(), performance.now() - from, crew.cpuMs() - cpuMs]
    return {
      perSecond: (done / tookMs) * 1_000,
      bulkPerSecond,
      done,
      each: each(before, await usage(), done, clientMs),
    }
  }
  return withFixture(name, measure, server)
}

interface SustainLoad {
  seconds: number
  processes?: number
  isSnapshotOpen?: boolean
  server?: ServerOptions
}

/** Keeps a backlog of jobs while the processes run for `seconds`. Measures the rate at which jobs finish. */
export function sustain(name: string, load: SustainLoad): Promise<Throughput> {
  const { seconds, processes = 1, isSnapshotOpen = false, server } = load
  const measure = async ({ queue, workers, usage, forgetSnapshot }: Fixture) => {
    const crew = await workers({ count: processes })
    if (isSnapshotOpen) await forgetSnapshot()
    const some = payloads(batchSize)
    let [enqueued, isOver] = [0, false]
    const produce = async () => {
      while (!isOver) {
        if (enqueued - crew.done() > backlog) await sleep(2)
        else {
          enqueued += batchSize
          await queue.enqueueMany(some)
        }
      }
    }
    // Two loops enqueue. With one loop, the producer's share of the CPU shrinks with each worker process, and the workers then wait for the
    // producer.
    const producers = [produce(), produce()]
    crew.begin()
    await sleep(1_500)
    const measureNow = async () => ({
      ...(await usage()),
      at: performance.now(),
      done: crew.done(),
      clientMs: crew.cpuMs() + ownCpuMs(),
    })
    const from = await measureNow()
    const middles: Progress[] = []
    for (let quarter = 1; quarter <= 4; quarter++) {
      await sleep(from.at + (quarter * seconds * 1_000) / 4 - performance.now())
      middles.push({ at: performance.now(), done: crew.done() })
    }
    const to = await measureNow()
    isOver = true
    await Promise.all(producers)
    const rate = (a: Progress, b: Progress) => ((b.done - a.done) / (b.at - a.at)) * 1_000
    return {
      perSecond: rate(from, middles[3]!),
      first: rate(from, middles[0]!),
      last: rate(middles[2]!, middles[3]!),
      each: each(from, to, to.done - from.done, to.clientMs - from.clientMs),
    }
  }
  return withFixture(name, measure, server)
}

/** Formats one load's table. */
export function showThroughput(load: string, outcomes: Outcomes<Throughput>) {
  const isStream = Object.values(outcomes)[0]?.[0]?.last !== undefined
  const rows = Object.entries(outcomes).map(([name, rounds]) => {
    const rates = rounds.map(({ perSecond }) => perSecond)
    const of = (read: (one: Throughput) => number | undefined) => middle(rounds, read)
    return [
      name,
      of(({ perSecond }) => perSecond),
      Number((Math.min(...rates) / Math.max(...rates)).toFixed(2)),
      isStream ? of(({ first, last }) => last! / first!) : of(({ bulkPerSecond }) => bulkPerSecond),
      of(({ each }) => each.serverUs),
      of(({ each }) => each.clientUs),
      of(({ each }) => each.walBytes),
      of(({ each }) => each.sizeBytes),
      of(({ each }) => each.deadRows),
      of(({ each }) => each.statements),
    ]
  })
  const columns = ['server µs', 'clients µs', 'WAL bytes', 'bytes grown', 'dead rows', 'statements']
  return table([load, 'jobs/s', 'least/most', isStream ? 'last/first quarter' : 'bulk enqueue/s', ...columns], rows)
}
