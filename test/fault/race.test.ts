import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { countOf } from '../property/seed.js'
import { until } from '../setup/facts.js'
import { collide, waysToGiveUp } from './collide.js'
import { openDatabase, openInstance } from './fixture.js'

// The end of a wait and the grant at the same moment. Whichever comes first, no lock may stay held.

const collisions = countOf(500)

for (const how of waysToGiveUp) {
  test(`a lock does not stay held after ${collisions} collisions of ${how} and grant`, {
    timeout: 300_000,
  }, async () => {
    const { url, witness } = await openDatabase()
    const [a, b] = [await openInstance(url), await openInstance(url, { waitConnections: 8 })]
    const tally = await collide(how, collisions, async (name) => ({
      held: await a.locks.acquire(name),
      acquire: (options) => b.locks.acquire(name, options),
    }))
    await until('nothing is held or waited for', async () => (await witness.locks()).length === 0)
    // If the two were far apart, one of the outcomes would never occur.
    expect(Math.min(tally.granted, tally['gave up'])).toBeGreaterThan(collisions / 20)
  })
}

test('a lock does not stay held if a slice of the wait ends at the moment of the grant', {
  timeout: 60_000,
}, async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  // A slice lasts 0.4 times the expiry. Each release comes at about the end of a slice.
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
  await until('nothing is held or waited for', async () => (await witness.locks()).length === 0)
})
