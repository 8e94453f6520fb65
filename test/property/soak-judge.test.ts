// The judge of the soak, without a soak: series with a leak, and series of a busy machine.
import { describe, expect, test } from 'vitest'
import { judge } from '../../faults/soak/judge.js'
import { randomFrom } from './random.ts'
import { seedOf } from './seed.js'

const days = 7
const samplesADay = 12
const tries = 10_000

type Random = ReturnType<typeof randomFrom>

/** Samples around the level of each day: the lowest of a day is the level. */
const seriesOf = (levels: readonly number[], random: Random, spread: number) =>
  levels.map((level) =>
    Array.from({ length: samplesADay }, (_, at) => level + (at === 0 ? 0 : random.fraction() * spread)),
  )

const everyDay = <T>(of: (day: number) => T) => Array.from({ length: days }, (_, day) => of(day))

/** Around 0, and rarely far away from it. */
const noise = (random: Random, size: number) => (random.fraction() + random.fraction() + random.fraction() - 1.5) * size

describe('the judge of the soak', () => {
  test('finds every leak that gains more than the bound, and more a day than twice the range of the noise', () => {
    const random = randomFrom(seedOf('leaks'))
    for (let i = 0; i < tries; i++) {
      const room = 1 + random.below(100)
      const level = random.below(1_000)
      // What noise adds or takes, at most, and so what a day gains at least.
      const most = random.fraction() * room
      const gain = 4 * most + (room + 0.2 * (level + 7 * most)) * (0.5 + random.fraction())
      const levels = everyDay((day) => level + day * gain + (random.fraction() * 2 - 1) * most)
      for (const ebbs of [true, false]) {
        const samples = seriesOf(levels, random, ebbs ? 50 : 0)
        expect(judge('leak', samples, { room, ebbs }), JSON.stringify({ levels, room })).toMatchObject({ isOk: false })
      }
    }
  })

  test.each([
    ['a level that is another one each day', (random: Random) => everyDay(() => 20 + random.fraction() * 60)],
    [
      'a machine that becomes busy, and stays so',
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
  ])('calls less than one series in twenty a leak: %s', (what, levelsOf) => {
    const random = randomFrom(seedOf(what))
    let found = 0
    for (let i = 0; i < tries; i++) {
      const samples = seriesOf(levelsOf(random), random, 40)
      if (!judge('noise', samples, { room: 10, ebbs: true }).isOk) found++
    }
    expect(found / tries).toBeLessThan(0.05)
  })

  test('finds a leak of a connection an hour, and no growth where a level rises once, as when other work begins', () => {
    const flat = { room: 10, ebbs: true }
    const leak = everyDay((day) => [20 + 24 * day, 26 + 24 * day] as const)
    expect(judge('connections', leak, flat)).toMatchObject({ slope: 24, gained: 96, isOk: false })
    const once = [14, 15, 17, 16, 30, 33, 34].map((level) => [level, level + 9] as const)
    expect(judge('connections', once, flat)).toMatchObject({ isOk: true })
  })
})
