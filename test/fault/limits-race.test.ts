import { expect, test } from 'vitest'
import { nothingInUse } from '../limits/facts.js'
import { randomFrom } from '../property/random.ts'
import { countOf, fixedSeedOf } from '../property/seed.js'
import { until } from '../setup/facts.js'
import { collide, waysToGiveUp } from './collide.js'
import { openDatabase, openInstance } from './fixture.js'

// The end of a wait and the grant in the same instant. Whoever wins, nothing may be left behind.

const collisions = countOf(300)

for (const how of waysToGiveUp) {
  test(`${collisions} collisions of ${how} and grant leak nothing`, { timeout: 300_000 }, async () => {
    const { url } = await openDatabase()
    const [a, b, c] = [await openInstance(url), await openInstance(url), await openInstance(url, { anchor: 'none' })]
    const tally = await collide(how, collisions, async (name, random) => {
      const max = 1 + random.below(2)
      const waiter = random.pick([a, b, b, c])
      return {
        // What was given up may still be on its way, and on its way back.
        held: await a.limits.acquire(name, { max, weight: max, wait: '15s' }),
        ask: (options) => waiter.limits.acquire(name, { max, ...options }),
      }
    })
    await until('nothing is in use', () => nothingInUse(url))
    // Far from a collision one of the two would never come about.
    expect(Math.min(tally.granted, tally['given up'])).toBeGreaterThan(collisions / 100)
  })
}

test('asks that are aborted in every instant of their way leak nothing', { timeout: 120_000 }, async () => {
  const random = randomFrom(fixedSeedOf('aborts'))
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
  await until('nothing is in use', () => nothingInUse(url))
  // What was still on its way is granted late, and given back.
  const whole = [0, 1, 2].map((i) => a.limits.acquire(`n${i}`, { max: 2, weight: 2, wait: '15s' }))
  expect(await Promise.all(whole)).toHaveLength(3)
})
