// Measures single jobs: how many a caller can enqueue per second, and how long a job waits while the queue is otherwise empty.
import { setTimeout as sleep } from 'node:timers/promises'
import { loops, percentile } from '../measure.ts'
import { withFixture } from './fixture.ts'
import { payloads } from './throughput.ts'

/** Measures single enqueues with one caller and with 32 callers, while no worker runs. */
export function singleEnqueues(name: string, ms: number) {
  return withFixture(name, async ({ queue }) => {
    const payload = payloads(1)[0]!
    const at = (callers: number, forMs: number) => loops(callers, forMs, () => queue.enqueue(payload))
    await at(32, 500)
    const [one, many] = [await at(1, ms), await at(32, ms)]
    return { onePerSecond: one.perSecond, oneMs: percentile(one.waitsMs, 50), perSecond: many.perSecond }
  })
}

/** Measures the time from the call to `enqueue` until the handler starts. Both are in this process. */
export function latency(name: string, times: number) {
  return withFixture(name, async ({ queue }) => {
    const started = new Map<number | undefined, (at: number) => void>()
    const stop = await queue.work(({ at }) => started.get(at)?.(performance.now()))
    const waits: number[] = []
    for (let at = -3; at < times; at++) {
      await sleep(30 + Math.random() * 30)
      const start = new Promise<number>((resolve) => started.set(at, resolve))
      const from = performance.now()
      await queue.enqueue({ at })
      const waited = (await start) - from
      // The first three jobs open connections and fill caches. They are not measured.
      if (at >= 0) waits.push(waited)
    }
    await Promise.race([stop(), sleep(2_000)])
    return { p50Ms: percentile(waits, 50), p99Ms: percentile(waits, 99) }
  })
}
