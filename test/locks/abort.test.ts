// A request that is aborted, times out or whose instance closes holds no lock afterwards. A lock that is granted later is released.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { ClosedError, DatabaseUnreachableError } from '../../src/index.js'
import { SilentProxy } from '../fault/silent-proxy.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { heldLocks, untilNoLocks, untilWaiting } from '../setup/locking.js'
import { randomFrom, seed } from '../setup/random.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const reason = new Error('changed my mind')

test('a request with an aborted signal rejects and locks nothing', async () => {
  const { locks } = await open({ url: fresh.url })
  const signal = AbortSignal.abort(reason)
  await expect(locks.acquire('before', { signal })).rejects.toBe(reason)
  await expect(locks.tryAcquire('before', { signal })).rejects.toBe(reason)
  expect(await heldLocks(fresh.url, locks.key('before'))).toBe(0)
})

test('a request that is aborted in the same turn of the event loop leaves no lock', async () => {
  const { locks } = await open({ url: fresh.url })
  const controller = new AbortController()
  const acquiring = locks.acquire('same turn', { signal: controller.signal })
  controller.abort(reason)
  await expect(acquiring).rejects.toBe(reason)
  await untilNoLocks(fresh.url)
})

test.each([1, 3])(
  'a request for %i names that is aborted while it waits leaves the queue of the server',
  async (count) => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    const held = await a.locks.acquire('during')
    const controller = new AbortController()
    const names = ['during', 'second', 'third'].slice(0, count)
    const acquiring = b.locks.acquire(names, { signal: controller.signal })
    await untilWaiting(fresh.url, held.keys[0]!)
    controller.abort(reason)
    await expect(acquiring).rejects.toBe(reason)
    await held.release()
    await untilNoLocks(fresh.url)
  },
)

test('a signal that aborts after the lock was granted does not release the lock', async () => {
  const { locks } = await open({ url: fresh.url })
  const controller = new AbortController()
  await using lock = await locks.acquire('after', { signal: controller.signal })
  controller.abort(reason)
  expect(lock.held).toBe(true)
  expect(lock.signal.aborted).toBe(false)
  expect(await heldLocks(fresh.url, lock.keys[0])).toBe(1)
})

test('an aborted waiter does not affect the other waiters', async () => {
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

test('a shared tryAcquire behind a waiting reader fails during an outage', async () => {
  const proxy = await SilentProxy.before(fresh.url)
  onTestFinished(() => proxy.close())
  const { locks } = await open({ url: proxy.through(fresh.url), expiry: '2s' })
  const swallowed = proxy.swallowReplyTo('pg_try_advisory_lock_shared')
  const abort = new AbortController()
  const waiting = locks.acquire('readers', { mode: 'shared', signal: abort.signal })
  const refused = caught(DatabaseUnreachableError, locks.tryAcquire('readers', { mode: 'shared' }))
  await swallowed
  proxy.cut()
  await within(10_000, 'The refusal', refused)
  abort.abort('enough')
  await expect(waiting).rejects.toBe('enough')
})

test('close rejects waiting requests and releases held locks', async () => {
  const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
  const held = await a.locks.acquire('closing')
  const own = await b.locks.acquire('closing too')
  const { signal } = own
  const acquiring = b.locks.acquire('closing')
  await untilWaiting(fresh.url, held.keys[0]!)
  await Promise.all([expect(acquiring).rejects.toBeInstanceOf(ClosedError), b.close()])
  expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', lock: 'closing too' })
  expect(own.held).toBe(false)
  await own.release()
  await caught(ClosedError, b.locks.tryAcquire('closing'))
  await held.release()
  await untilNoLocks(fresh.url)
})

const start = seed()

test(`many requests that wait and abort leave no lock, and a lock never has two holders (seed ${start})`, async () => {
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
        // The handler takes some time, so that the check would notice a second holder.
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
