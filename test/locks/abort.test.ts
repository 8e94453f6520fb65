// What is aborted, timed out or closed while it waits holds nothing afterwards, and what arrives late is given back.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ClosedError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { heldLocks, untilNoLocks, untilWaiting } from '../setup/locking.js'
import { randomFrom, seed } from '../setup/random.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const reason = new Error('changed my mind')

test('aborted before: nothing is asked', async () => {
  const { locks } = await open({ url: fresh.url })
  const signal = AbortSignal.abort(reason)
  await expect(locks.acquire('before', { signal })).rejects.toBe(reason)
  await expect(locks.tryAcquire('before', { signal })).rejects.toBe(reason)
  expect(await heldLocks(fresh.url, locks.key('before'))).toBe(0)
})

test('aborted in the same turn: given back', async () => {
  const { locks } = await open({ url: fresh.url })
  const controller = new AbortController()
  const asked = locks.acquire('same turn', { signal: controller.signal })
  controller.abort(reason)
  await expect(asked).rejects.toBe(reason)
  await untilNoLocks(fresh.url)
})

test.each([1, 3])('aborted while it waits on the server (%i names): leaves the queue there', async (count) => {
  const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
  const held = await a.locks.acquire('during')
  const controller = new AbortController()
  const names = ['during', 'beside', 'besides'].slice(0, count)
  const asked = b.locks.acquire(names, { signal: controller.signal })
  await untilWaiting(fresh.url, held.keys[0]!)
  controller.abort(reason)
  await expect(asked).rejects.toBe(reason)
  await held.release()
  await untilNoLocks(fresh.url)
})

test('aborted after: the lock stays, for it is the holder who decides', async () => {
  const { locks } = await open({ url: fresh.url })
  const controller = new AbortController()
  await using lock = await locks.acquire('after', { signal: controller.signal })
  controller.abort(reason)
  expect(lock.held).toBe(true)
  expect(lock.signal.aborted).toBe(false)
  expect(await heldLocks(fresh.url, lock.keys[0])).toBe(1)
})

test('an aborted waiter does not take the others with it', async () => {
  const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
  const held = await a.locks.acquire('others')
  const controller = new AbortController()
  const first = b.locks.acquire('others', { signal: controller.signal })
  const second = b.locks.acquire('others')
  await untilWaiting(fresh.url, held.keys[0]!)
  controller.abort(reason)
  await expect(first).rejects.toBe(reason)
  await held.release()
  await using lock = await second
  expect(lock.held).toBe(true)
})

test('closing ends those who wait, and gives back what is held', async () => {
  const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
  const held = await a.locks.acquire('closing')
  const own = await b.locks.acquire('closing too')
  const { signal } = own
  const asked = b.locks.acquire('closing')
  await untilWaiting(fresh.url, held.keys[0]!)
  await Promise.all([expect(asked).rejects.toBeInstanceOf(ClosedError), b.close()])
  expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', lock: 'closing too' })
  expect(own.held).toBe(false)
  await own.release()
  await caught(ClosedError, b.locks.tryAcquire('closing'))
  await held.release()
  await untilNoLocks(fresh.url)
})

const start = seed()

test(`many that come, wait and abort leave nothing and never two holders (seed ${start})`, async () => {
  const random = randomFrom(start)
  const fleet = await Promise.all([0, 1, 2].map(() => open({ url: fresh.url, waitConnections: 2 })))
  const inside = new Map<string, number>()
  const outcomes = { done: 0, aborted: 0 }
  const one = async () => {
    const { locks } = fleet[Math.floor(random() * fleet.length)]!
    const name = `many ${Math.floor(random() * 4)}`
    const controller = new AbortController()
    const timer = setTimeout(() => controller.abort(reason), random() * 60)
    try {
      await locks.with(name, { signal: controller.signal }, async () => {
        expect(inside.get(name) ?? 0).toBe(0)
        inside.set(name, 1)
        // Work, beside which another holder would be seen.
        await new Promise((resolve) => setTimeout(resolve, random() * 3))
        inside.set(name, 0)
      })
      outcomes.done++
    } catch (error) {
      if (error !== reason) throw error
      outcomes.aborted++
    } finally {
      clearTimeout(timer)
    }
  }
  const worker = async () => {
    for (let round = 0; round < 25; round++) await one()
  }
  await Promise.all(Array.from({ length: 24 }, worker))
  expect(outcomes.done).toBeGreaterThan(20)
  expect(outcomes.aborted).toBeGreaterThan(20)
  await untilNoLocks(fresh.url)
})
