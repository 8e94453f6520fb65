// The growth rule of the soak test, with simulated series: series with a leak, and series of a busy machine.
import { describe, expect, test } from 'vitest'
import { judge } from '../../faults/soak/judge.js'
import { randomFrom } from './random.ts'
import { seedOf } from './seed.js'

const days = 7
const samplesPerDay = 12
const tries = 10_000

type Random = ReturnType<typeof randomFrom>

/** Makes samples for the level of each day. The level is the lowest sample of the day. */
const seriesOf = (levels: readonly number[], random: Random, spread: number) =>
  levels.map((level) =>
    Array.from({ length: samplesPerDay }, (_, at) => level + (at === 0 ? 0 : random.fraction() * spread)),
  )

const everyDay = <T>(of: (day: number) => T) => Array.from({ length: days }, (_, day) => of(day))

/** Returns a random number around 0 that is rarely far from 0. */
const noise = (random: Random, size: number) => (random.fraction() + random.fraction() + random.fraction() - 1.5) * size

describe('growth rule', () => {
  test('the growth rule finds every leak that exceeds the limit and rises more per day than twice the range of the noise', () => {
    const random = randomFrom(seedOf('leaks'))
    for (let i = 0; i < tries; i++) {
      const margin = 1 + random.below(100)
      const level = random.below(1_000)
      // Maximum amount of noise, and the gain per day.
      const maxNoise = random.fraction() * margin
      const gain = 4 * maxNoise + (margin + 0.2 * (level + 7 * maxNoise)) * (0.5 + random.fraction())
      const levels = everyDay((day) => level + day * gain + (random.fraction() * 2 - 1) * maxNoise)
      for (const fluctuates of [true, false]) {
        const samples = seriesOf(levels, random, fluctuates ? 50 : 0)
        expect(judge('leak', samples, { margin, fluctuates }), JSON.stringify({ levels, margin })).toMatchObject({
          isOk: false,
        })
      }
    }
  })

  test.each([
    ['a level that differs each day', (random: Random) => everyDay(() => 20 + random.fraction() * 60)],
    [
      'a machine that becomes busy and stays busy',
      (random: Random) => {
        const since = random.below(days)
        return everyDay((day) => 20 + (day >= since ? 30 : 0) + noise(random, 6))
      },
    ],
    [
      'a machine that is busy on some days',
      (random: Random) => {
        const busy = everyDay(() => (random.chance(0.5) ? 30 : 0))
        return everyDay((day) => 20 + busy[day]! + noise(random, 6))
      },
    ],
    [
      'pools that fill up to their size',
      (random: Random) => everyDay((day) => 20 + 40 * (1 - 0.45 ** day) + noise(random, 2)),
    ],
  ])('the growth rule reports a leak for fewer than one in twenty series of %s', (what, levelsOf) => {
    const random = randomFrom(seedOf(what))
    let found = 0
    for (let i = 0; i < tries; i++) {
      const samples = seriesOf(levelsOf(random), random, 40)
      if (!judge('noise', samples, { margin: 10, fluctuates: true }).isOk) found++
    }
    expect(found / tries).toBeLessThan(0.05)
  })

  test('the growth rule finds a leak of one connection per hour, and no growth if the level rises only once', () => {
    const flat = { margin: 10, fluctuates: true }
    const leak = everyDay((day) => [20 + 24 * day, 26 + 24 * day] as const)
    expect(judge('connections', leak, flat)).toMatchObject({ slope: 24, gained: 96, isOk: false })
    const once = [14, 15, 17, 16, 30, 33, 34].map((level) => [level, level + 9] as const)
    expect(judge('connections', once, flat)).toMatchObject({ isOk: true })
  })
})
