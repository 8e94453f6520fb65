import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Random, randomFrom } from '../property/random.mjs'
import { countOf, seedOf } from '../property/seed.js'
import { until } from '../setup/facts.js'
import { openDatabase, openInstance } from './stage.js'

// The end of a wait and the grant in the same instant. Whoever wins, nothing may be left behind.

type Outcome = 'granted' | 'given up'

/** How a wait ends that would end after about `ms`. */
const ends = {
  timeout: (ms: number) => ({ wait: ms }),
  abort: (ms: number) => {
    const abort = new AbortController()
    setTimeout(() => abort.abort(new Error('changed my mind')), ms)
    return { signal: abort.signal }
  },
}

for (const [how, end] of Object.entries(ends)) {
  const collisions = countOf(500)

  test(`${collisions} collisions of ${how} and grant leak nothing`, { timeout: 300_000 }, async () => {
    const seed = seedOf(how)
    const { url, witness } = await openDatabase()
    const [a, b] = [await openInstance(url), await openInstance(url, { parked: 8 })]
    const tally: Record<Outcome, number> = { granted: 0, 'given up': 0 }
    let left = collisions
    const lane = async (name: string, random: Random) => {
      // Searches for the instant by itself: later after a grant, earlier after none, and the faster the longer it errs to one side.
      let offsetMs = 0
      let strideMs = 1
      let last: Outcome | undefined
      while (left-- > 0) {
        const held = await a.locks.acquire(name)
        const waitMs = 20 + random.below(4)
        const waiting = b.locks.acquire(name, end(waitMs)).then(
          async (lock): Promise<Outcome> => {
            await lock.release()
            return 'granted'
          },
          (): Outcome => 'given up',
        )
        await sleep(Math.max(0, waitMs + offsetMs))
        await held.release()
        const outcome = await waiting
        tally[outcome]++
        strideMs = outcome === last ? Math.min(strideMs * 1.5, waitMs / 2) : 1
        last = outcome
        offsetMs += (outcome === 'granted' ? strideMs : -strideMs) * random.fraction()
      }
    }
    const lanes = Array.from({ length: 6 }, (_, i) => lane(`n${i}`, randomFrom(seed + i)))
    await Promise.all(lanes)
    console.log(`${how}: ${tally.granted} granted, ${tally['given up']} given up`)
    await until('nothing is held or waited for', async () => (await witness.locks()).length === 0, 3_000)
    // Far from a collision one of the two would never come about.
    expect(Math.min(tally.granted, tally['given up'])).toBeGreaterThan(collisions / 20)
  })
}

test('the slice of a wait and the grant in the same instant leak nothing', { timeout: 60_000 }, async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  // A slice is 0.4 of the expiry: every release comes when it ends.
  const sliceMs = 800
  const rounds = Array.from({ length: 4 }, async (_, i) => {
    for (let round = 0; round < 8; round++) {
      const held = await a.locks.acquire(`n${i}`)
      const waiting = b.locks.acquire(`n${i}`)
      await sleep(sliceMs - 4 + round)
      await held.release()
      await (await waiting).release()
    }
  })
  await Promise.all(rounds)
  await until('nothing is held or waited for', async () => (await witness.locks()).length === 0, 3_000)
})
