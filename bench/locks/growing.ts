// Measures what a lock costs while one instance holds many other locks, on a server with default settings.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, type HoldfastError, type Lock } from 'holdfast'
import { loops, type Progress, percentile } from '../measure.ts'
import { benchDatabase } from '../server.ts'

const batchSize = 500
const runMs = 2_000

interface Point {
  count: number
  perSecond?: number
  p50Ms?: number
  pairsPerSecond?: number
  code?: string
}

/** Measures each number of held locks. The last point has the error code if the server's lock table is too small for its number. */
export async function growingLocks(counts: number[], progress: Progress) {
  const database = await benchDatabase()
  const holdfast = await Holdfast.open({ url: database.url, namespace: 'bench' })
  const held: Lock[] = []
  const points: Point[] = []
  try {
    for (const count of counts) {
      progress(`growth: ${count} locks held`)
      const from = performance.now()
      const before = held.length
      while (held.length < count) {
        const some = Array.from({ length: Math.min(batchSize, count - held.length) }, (_, at) => held.length + at)
        held.push(...(await Promise.all(some.map((at) => holdfast.locks.acquire(`held:${at}`)))))
      }
      const perSecond = Math.round(((count - before) / (performance.now() - from)) * 1_000)
      // During this time, Holdfast records the locks that have been held for long.
      await sleep(3_000)
      const pair = async (caller: number) => (await holdfast.locks.acquire(`pair:${caller}`)).release()
      const [one, many] = [await loops(1, runMs, () => pair(0)), await loops(64, runMs, pair)]
      points.push({
        count,
        perSecond,
        p50Ms: Number(percentile(one.waitsMs, 50).toPrecision(3)),
        pairsPerSecond: Math.round(many.perSecond),
      })
    }
    return points
  } catch (error) {
    return [...points, { count: counts[points.length]!, code: (error as HoldfastError).code }]
  } finally {
    await holdfast.close()
    await database.close()
  }
}
