import { expect, test } from 'vitest'
import { nothingInUse } from '../limits/facts.js'
import { randomFrom } from '../property/random.ts'
import { countOf, fixedSeedOf } from '../property/seed.js'
import { until } from '../setup/facts.js'
import { collide, waysToGiveUp } from './collide.js'
import { openDatabase, openInstance } from './fixture.js'

// The end of a wait and the grant at the same moment. Whichever comes first, no permit may stay in use.

const collisions = countOf(300)

for (const how of waysToGiveUp) {
  test(`a permit does not stay in use after ${collisions} collisions of ${how} and grant`, {
    timeout: 300_000,
  }, async () => {
    const { url } = await openDatabase()
    const [a, b, c] = [await openInstance(url), await openInstance(url), await openInstance(url, { anchor: 'none' })]
    const tally = await collide(how, collisions, async (name, random) => {
      const max = 1 + random.below(2)
      const waiter = random.pick([a, b, b, c])
      return {
        // A late grant to a caller that gave up may not have been returned yet.
        held: await a.limits.acquire(name, { max, weight: max, wait: '15s' }),
        acquire: (options) => waiter.limits.acquire(name, { max, ...options }),
      }
    })
    await until('no permit is in use', () => nothingInUse(url))
    // If the two were far apart, one of the outcomes would never occur.
    expect(Math.min(tally.granted, tally['gave up'])).toBeGreaterThan(collisions / 100)
  })
}

test('a permit does not stay in use if its request is aborted at a random moment', { timeout: 120_000 }, async () => {
  const random = randomFrom(fixedSeedOf('aborts'))
  const { url } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  for (let round = 0; round < 30; round++) {
    const calls = Array.from({ length: 20 }, async () => {
      const abort = new AbortController()
      const name = `n${random.below(3)}`
      const wait = random.chance(0.5) ? '10s' : 0
      const work = random.pick([a, b]).limits.acquire(name, { max: 2, wait, signal: abort.signal })
      const abortMs = random.fraction() * 6
      if (random.chance(0.3)) abort.abort('immediately')
      else setTimeout(() => abort.abort('later'), abortMs)
      await work.then((permit) => permit.release()).catch(() => {})
    })
    await Promise.all(calls)
  }
  await until('no permit is in use', () => nothingInUse(url))
  // The server may grant an aborted request late. Then the instance returns the permit.
  const whole = [0, 1, 2].map((i) => a.limits.acquire(`n${i}`, { max: 2, weight: 2, wait: '15s' }))
  expect(await Promise.all(whole)).toHaveLength(3)
})
