import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { countOf } from '../property/seed.js'
import { until } from '../setup/facts.js'
import { collide, waysToGiveUp } from './collide.js'
import { openDatabase, openInstance } from './fixture.js'

// The end of a wait and the grant in the same instant. Whoever wins, nothing may be left behind.

const collisions = countOf(500)

for (const how of waysToGiveUp) {
  test(`${collisions} collisions of ${how} and grant leak nothing`, { timeout: 300_000 }, async () => {
    const { url, witness } = await openDatabase()
    const [a, b] = [await openInstance(url), await openInstance(url, { waitConnections: 8 })]
    const tally = await collide(how, collisions, async (name) => ({
      held: await a.locks.acquire(name),
      ask: (options) => b.locks.acquire(name, options),
    }))
    await until('nothing is held or waited for', async () => (await witness.locks()).length === 0)
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
  await until('nothing is held or waited for', async () => (await witness.locks()).length === 0)
})
