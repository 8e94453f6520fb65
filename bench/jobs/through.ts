// What goes through: a backlog that is drained, and a stream that is sustained. Contestants take turns, each on a fresh server.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { middle, type Outcomes } from '../compare.ts'
import { ownCpuMs } from '../cpu.ts'
import type { ServerOptions } from '../server.ts'
import { table } from '../table.ts'
import type { Payload } from './contestants.ts'
import { each, type Fixture, withFixture } from './fixture.ts'

const together = 1_000
const backlog = 20_000

interface Look {
  at: number
  done: number
}

/** After that a contestant is told to stop: its rate is what it has done by then. */
const patienceMs = 20_000

/** Payloads of `bytes` bytes each. PostgreSQL stores a long repeated letter in a few bytes, but cannot compress random text. */
export function payloads(count: number, bytes = 100, isRandom = false): Payload[] {
  const length = Math.max(0, bytes - 24)
  const text = isRandom ? randomBytes(length).toString('base64').slice(0, length) : 'x'.repeat(length)
  return Array.from({ length: count }, (_, at) => ({ at, text }))
}

interface Drained {
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

/** What came of a load. `bulkPerSecond` is of those that were drained; `first` and `last`, the quarters, of those that were sustained. */
export interface Through {
  perSecond: number
  bulkPerSecond?: number
  first?: number
  last?: number
  done?: number
  each: ReturnType<typeof each>
}

/**
 * Enqueues so many jobs, and then lets the processes begin. Before them may come so many that are delayed for long, and so many of one
 * lane whose first never ends.
 */
export function drain(name: string, load: Drained): Promise<Through> {
  const { jobs, processes = 1, handlerMs = 0, concurrency, bytes, isRandom, delayed = 0, hot = 0, server } = load
  const measure = async ({ queue, workers, spent }: Fixture) => {
    for (let left = delayed; left > 0; left -= 5_000) {
      await queue.enqueueMany(payloads(Math.min(5_000, left)), { delayMs: 86_400_000 })
    }
    if (hot > 0) await queue.enqueueMany([{ isEndless: true }], { lane: 'hot' })
    for (let left = hot; left > 0; left -= 5_000) {
      const some = payloads(Math.min(5_000, left)).map((one) => ({ ...one, isHot: true }))
      await queue.enqueueMany(some, { lane: 'hot' })
    }
    const enqueueFrom = performance.now()
    const some = payloads(together, bytes, isRandom)
    for (let left = jobs; left > 0; left -= 2 * together) {
      await Promise.all([queue.enqueueMany(some), left > together && queue.enqueueMany(some)])
    }
    const bulkPerSecond = (jobs / (performance.now() - enqueueFrom)) * 1_000
    const crew = await workers({ count: processes, handlerMs, concurrency, hasLanes: hot > 0 })
    const [before, cpuMs] = [await spent(), crew.cpuMs()]
    const from = performance.now()
    crew.begin()
    while (crew.done() < jobs && performance.now() - from < patienceMs) await sleep(5)
    const [done, tookMs, clientMs] = [crew.done(), performance.now() - from, crew.cpuMs() - cpuMs]
    return {
      perSecond: (done / tookMs) * 1_000,
      bulkPerSecond,
      done,
      each: each(before, await spent(), done, clientMs),
    }
  }
  return withFixture(name, measure, server)
}

interface Sustained {
  seconds: number
  processes?: number
  isSnapshotOpen?: boolean
  server?: ServerOptions
}

/** Keeps a backlog before the processes for so many seconds, and counts what they do meanwhile. */
export function sustain(name: string, load: Sustained): Promise<Through> {
  const { seconds, processes = 1, isSnapshotOpen = false, server } = load
  const measure = async ({ queue, workers, spent, forgetSnapshot }: Fixture) => {
    const crew = await workers({ count: processes })
    if (isSnapshotOpen) await forgetSnapshot()
    const some = payloads(together)
    let [enqueued, isOver] = [0, false]
    const produce = async () => {
      while (!isOver) {
        if (enqueued - crew.done() > backlog) await sleep(2)
        else {
          enqueued += together
          await queue.enqueueMany(some)
        }
      }
    }
    // Two statements are under way: with one, the producer gets a smaller part of the machine with each process, which then waits for it.
    const producers = [produce(), produce()]
    crew.begin()
    await sleep(1_500)
    const look = async () => ({
      ...(await spent()),
      at: performance.now(),
      done: crew.done(),
      clientMs: crew.cpuMs() + ownCpuMs(),
    })
    const from = await look()
    const middles: Look[] = []
    for (let quarter = 1; quarter <= 4; quarter++) {
      await sleep(from.at + (quarter * seconds * 1_000) / 4 - performance.now())
      middles.push({ at: performance.now(), done: crew.done() })
    }
    const to = await look()
    isOver = true
    await Promise.all(producers)
    const rate = (a: Look, b: Look) => ((b.done - a.done) / (b.at - a.at)) * 1_000
    return {
      perSecond: rate(from, middles[3]!),
      first: rate(from, middles[0]!),
      last: rate(middles[2]!, middles[3]!),
      each: each(from, to, to.done - from.done, to.clientMs - from.clientMs),
    }
  }
  return withFixture(name, measure, server)
}

/** Table of one load. */
export function showThrough(load: string, outcomes: Outcomes<Through>) {
  const isStream = Object.values(outcomes)[0]?.[0]?.last !== undefined
  const rows = Object.entries(outcomes).map(([name, rounds]) => {
    const rates = rounds.map(({ perSecond }) => perSecond)
    const of = (read: (one: Through) => number | undefined) => middle(rounds, read)
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
