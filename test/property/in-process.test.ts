import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Holdfast, type Lock, LockTimeoutError } from '../../src/index.js'
import { openDatabase, openInstance } from '../fault/fixture.js'
import { until } from '../setup/facts.js'
import { type Random, randomFrom } from './random.ts'
import { countOf, seedOf } from './seed.js'

// Two instances with many handles in one process. All events have one order here, so the judge can check each step immediately.

/** Tracks the holders of all names, and checks each grant. */
class Judge {
  readonly #holders = new Map<string, Set<Lock>>()
  readonly #fences = new Map<string, number>()
  grants = 0

  granted(lock: Lock): void {
    this.grants++
    expect(lock.held).toBe(true)
    for (const name of lock.names) {
      const holders = this.#holders.get(name) ?? new Set()
      this.#holders.set(name, holders)
      for (const other of holders) expect([name, other.mode, lock.mode]).toEqual([name, 'shared', 'shared'])
      holders.add(lock)
      // Readers that share one hold have the same fence.
      const last = this.#fences.get(name) ?? 0
      if (lock.mode === 'exclusive') expect(lock.fence).toBeGreaterThan(last)
      this.#fences.set(name, Math.max(last, lock.fence))
    }
  }

  releasing(lock: Lock): void {
    for (const name of lock.names) this.#holders.get(name)!.delete(lock)
  }
}

async function step(holdfast: Holdfast, names: string[], random: Random, judge: Judge): Promise<void> {
  const chosen = random.chance(0.3) ? random.some(names, 1 + random.below(3)) : random.pick(names)
  const abort = new AbortController()
  const manner = random.fraction()
  const options = {
    mode: random.chance(0.4) ? ('shared' as const) : ('exclusive' as const),
    ...(manner < 0.3 && { wait: random.below(20) }),
    ...(manner > 0.7 && { signal: abort.signal }),
  }
  const timer = manner > 0.7 ? setTimeout(() => abort.abort(new Error('changed my mind')), random.below(20)) : undefined
  try {
    const tries = random.chance(0.2)
    const lock = await (tries ? holdfast.locks.tryAcquire(chosen, options) : holdfast.locks.acquire(chosen, options))
    if (lock === null) return
    judge.granted(lock)
    if (random.chance(0.7)) await sleep(random.below(4))
    expect(lock.held).toBe(true)
    judge.releasing(lock)
    await lock.release()
  } catch (error) {
    if (!(error instanceof LockTimeoutError) && error !== abort.signal.reason) throw error
  } finally {
    clearTimeout(timer)
  }
}

const walks = countOf(10, 228)

test(`exclusive holders are alone and fences grow in ${walks} walks with many handles, mixed modes and aborts`, {
  timeout: 0,
}, async () => {
  const seed = seedOf('in process')
  const { url, witness } = await openDatabase()
  const instances = [await openInstance(url, { waitConnections: 2 }), await openInstance(url)]
  const judge = new Judge()
  for (let walk = 0; walk < walks; walk++) {
    const names = Array.from({ length: 1 + (walk % 5) }, (_, i) => `${walk}/${i}`)
    const flows = Array.from({ length: 16 }, async (_, i) => {
      const random = randomFrom(seed + walk * 100 + i)
      for (let steps = 0; steps < 10; steps++) await step(instances[i % 2]!, names, random, judge)
    })
    await Promise.all(flows)
    // A late grant to a caller that gave up may not have been returned yet.
    await until(`no lock of walk ${walk} is left`, async () => (await witness.locks()).length === 0)
  }
  expect(judge.grants).toBeGreaterThan(walks * 20)
})

test('calls in one process are granted in the order of their arrival while other calls give up', async () => {
  const seed = seedOf('fairness')
  const random = randomFrom(seed)
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const blocker = await b.locks.acquire('x')
  const served: number[] = []
  const calls = Array.from({ length: 60 }, async (_, turn) => {
    const wait = random.chance(0.3) ? { wait: 1 + random.below(40) } : {}
    const lock = await a.locks.tryAcquire('x', { wait: 60_000, ...wait })
    if (lock === null) return
    served.push(turn)
    await lock.release()
  })
  // Another instance competes for the name.
  const others = Array.from({ length: 5 }, async () => (await b.locks.acquire('x')).release())
  await witness.seesWaiter()
  // Varies how many sessions are waiting at the release.
  await sleep(random.below(30))
  await blocker.release()
  await Promise.all([...calls, ...others])
  expect(served).toEqual(served.toSorted((x, y) => x - y))
  expect(served.length).toBeGreaterThan(20)
  await until('no lock is held', async () => (await witness.locks()).length === 0)
})
