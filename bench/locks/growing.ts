// What locks cost beside so many that are held: by one instance in one process, on a server with its default settings.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, type HoldfastError, type Lock } from 'holdfast'
import { loops, type Progress, percentile } from '../measure.ts'
import { benchDatabase } from '../server.ts'

const together = 500
const slot = 2_000

interface Point {
  count: number
  perSecond?: number
  p50Ms?: number
  pairsPerSecond?: number
  code?: string
}

/** Ends with the first number for which the server has no room, and what the error is called. */
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
        const some = Array.from({ length: Math.min(together, count - held.length) }, (_, at) => held.length + at)
        held.push(...(await Promise.all(some.map((at) => holdfast.locks.acquire(`held:${at}`)))))
      }
      const perSecond = Math.round(((count - before) / (performance.now() - from)) * 1_000)
      // The note of what is held for long is written meanwhile.
      await sleep(3_000)
      const pair = async (caller: number) => (await holdfast.locks.acquire(`beside:${caller}`)).release()
      const [one, many] = [await loops(1, slot, () => pair(0)), await loops(64, slot, pair)]
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
