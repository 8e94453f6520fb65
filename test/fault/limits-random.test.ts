import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { nothingInUse } from '../limits/facts.js'
import { randomFrom } from '../property/random.ts'
import { fixedSeedOf } from '../property/seed.js'
import { until } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { Child } from './children.js'
import { expiryMs, openDatabase, openInstance } from './fixture.js'

// Processes acquire permits at random while they are killed, frozen and thawed. The permits in use never exceed the limit.

const limits = [
  { name: 'one', max: 1 },
  { name: 'three', max: 3 },
  { name: 'seven', max: 7 },
]
const walkMs = 15_000

interface Line {
  id: string
  event: 'granted' | 'still-holds' | 'unexpected'
  at: number
  name: string
  weight: number
  fence: number
  error: string
}

/** Hold of a permit, from the grant to the last check that found it held. */
interface Hold {
  name: string
  weight: number
  fence: number
  from: number
  to: number
}

function holdsIn(lines: readonly Line[]): Hold[] {
  const holds = new Map<string, Hold>()
  for (const { id, event, at, name, weight, fence } of lines) {
    if (event === 'granted') holds.set(id, { name, weight, fence, from: at, to: at })
    else if (event === 'still-holds') holds.get(id)!.to = at
  }
  return [...holds.values()]
}

/** Returns the largest total weight that was held at the same time. */
function maxInUse(holds: readonly Hold[]): number {
  const changes = holds.flatMap(({ from, to, weight }) => [
    { at: from, by: weight },
    { at: to, by: -weight },
  ])
  // If one hold ends in the microsecond in which another starts, the end comes first.
  changes.sort((a, b) => a.at - b.at || a.by - b.by)
  let now = 0
  let max = 0
  for (const { by } of changes) {
    now += by
    max = Math.max(max, now)
  }
  return max
}

test('maxInUse finds a permit too many', () => {
  const hold = { name: '', weight: 1, fence: 1 }
  expect(
    maxInUse([
      { ...hold, from: 0, to: 5 },
      { ...hold, weight: 2, from: 4, to: 9 },
    ]),
  ).toBe(3)
  expect(
    maxInUse([
      { ...hold, from: 0, to: 4 },
      { ...hold, from: 4, to: 9 },
    ]),
  ).toBe(1)
})

test.skipIf(!runsAll)(
  'permits never exceed their limit while processes are killed and frozen, and none stays in use',
  {
    timeout: 180_000,
  },
  async () => {
    const seed = fixedSeedOf('limits')
    const random = randomFrom(seed)
    const { url } = await openDatabase()
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-limits-'))
    onTestFinished(async () => rmSync(directory, { recursive: true, force: true }))
    const histories: string[] = []
    const workers = new Set<Child>()
    let started = 0

    const start = async () => {
      const history = join(directory, `${started++}`)
      histories.push(history)
      const anchor = random.chance(0.3) ? 'none' : 'required'
      const facts = { url, expiryMs, history, limits, anchor, seed: seed + started, lanes: 4 }
      const worker = new Child('./limits-worker.ts', facts)
      workers.add(worker)
      await worker.first('it is open')
    }
    await Promise.all([1, 2, 3, 4].map(start))

    const end = performance.now() + walkMs
    let killed = 0
    let frozen = 0
    while (performance.now() < end) {
      await sleep(200 + random.below(600))
      const worker = random.pick([...workers])
      if (random.chance(0.4)) {
        workers.delete(worker)
        worker.kill()
        killed++
        await start()
      } else {
        worker.process.kill('SIGSTOP')
        await sleep(random.chance(0.5) ? random.below(200) : expiryMs + random.below(1_000))
        worker.process.kill('SIGCONT')
        frozen++
      }
    }
    await Promise.all([...workers].map((worker) => worker.close('stop')))

    const lines = histories.flatMap((file) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .slice(0, -1)
        .map((line): Line => JSON.parse(line)),
    )
    expect(lines.filter(({ event }) => event === 'unexpected').map(({ error }) => error)).toEqual([])
    const holds = holdsIn(lines)
    console.log(`${holds.length} permits, ${killed} killed, ${frozen} frozen`)
    for (const { name, max } of limits) {
      const used = maxInUse(holds.filter((hold) => hold.name === name))
      expect(used, name).toBeLessThanOrEqual(max)
      // The test is meaningful only if the limit was reached.
      expect(used, name).toBe(max)
    }
    // Killed processes leave rows of permits behind. New calls find these permits free.
    const holdfast = await openInstance(url)
    for (const { name, max } of limits)
      await (await holdfast.limits.acquire(name, { max, weight: max, wait: '5s' })).release()
    await until('no permit is in use', () => nothingInUse(url))
  },
)
