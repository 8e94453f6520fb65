import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { nothingInUse } from '../limits/facts.js'
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
    return { wait: '20s', signal: abort.signal }
  },
}

for (const [how, end] of Object.entries(ends)) {
  const collisions = countOf(300)

  test(`${collisions} collisions of ${how} and grant leak nothing`, { timeout: 300_000 }, async () => {
    const seed = seedOf(how)
    const { url } = await openDatabase()
    const [a, b, c] = [await openInstance(url), await openInstance(url), await openInstance(url, { anchor: 'none' })]
    const tally: Record<Outcome, number> = { granted: 0, 'given up': 0 }
    let left = collisions
    const lane = async (name: string, random: Random) => {
      // Searches for the instant by itself: later after a grant, earlier after none, in longer steps the longer it is not there.
      let [offsetMs, stepMs] = [0, 1]
      let before: Outcome | undefined
      // On a slow machine the ask is not even there after so little.
      let leastMs = 12
      while (left-- > 0) {
        const max = 1 + random.below(2)
        // What was given up may still be on its way, and on its way back.
        const held = await a.limits.acquire(name, { max, weight: max, wait: '5s' })
        const waitMs = leastMs + random.below(4)
        const waiter = random.pick([a, b, b, c])
        const waiting = waiter.limits.acquire(name, { max, ...end(waitMs) }).then(
          async (permit): Promise<Outcome> => {
            await permit.release()
            return 'granted'
          },
          (): Outcome => 'given up',
        )
        await sleep(Math.max(0, waitMs + offsetMs))
        await held.release()
        const outcome = await waiting
        tally[outcome]++
        stepMs = outcome === before ? Math.min(stepMs * 1.5, 20) : 1
        before = outcome
        offsetMs += stepMs * (outcome === 'granted' ? random.fraction() : -random.fraction())
        if (offsetMs < -leastMs) {
          leastMs *= 1.5
          offsetMs = 0
        }
      }
    }
    await Promise.all(Array.from({ length: 6 }, (_, i) => lane(`n${i}`, randomFrom(seed + i))))
    console.log(`${how}: ${tally.granted} granted, ${tally['given up']} given up`)
    await until('nothing is in use', () => nothingInUse(url), 3_000)
    // Far from a collision one of the two would never come about.
    expect(Math.min(tally.granted, tally['given up'])).toBeGreaterThan(collisions / 100)
  })
}

test('asks that are aborted in every instant of their way leak nothing', { timeout: 120_000 }, async () => {
  const random = randomFrom(seedOf('aborts'))
  const { url } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  for (let round = 0; round < 30; round++) {
    const asked = Array.from({ length: 20 }, async () => {
      const abort = new AbortController()
      const name = `n${random.below(3)}`
      const wait = random.chance(0.5) ? '10s' : 0
      const work = random.pick([a, b]).limits.acquire(name, { max: 2, wait, signal: abort.signal })
      const abortMs = random.fraction() * 6
      if (random.chance(0.3)) abort.abort('at once')
      else setTimeout(() => abort.abort('later'), abortMs)
      await work.then((permit) => permit.release()).catch(() => {})
    })
    await Promise.all(asked)
  }
  await until('nothing is in use', () => nothingInUse(url), 5_000)
  // What was still on its way is granted late, and given back.
  const whole = [0, 1, 2].map((i) => a.limits.acquire(`n${i}`, { max: 2, weight: 2, wait: '5s' }))
  expect(await Promise.all(whole)).toHaveLength(3)
})
