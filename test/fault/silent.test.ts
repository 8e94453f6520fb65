import { expect, test } from 'vitest'
import { defineJob, LockLostError } from '../../src/index.js'
import { until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { expiryMs, openDatabase, openInstance, openProxy } from './fixture.js'
import type { Direction } from './silent-proxy.js'

// Locks in a network that becomes silent: no data arrives, and neither side is notified.

const directions: Record<string, Direction[]> = {
  'in both directions': ['to-server', 'to-client'],
  'towards the server': ['to-server'],
  'towards the client': ['to-client'],
}

for (const [where, silent] of Object.entries(directions)) {
  test(`the holder of a lock in a network that is silent ${where} is notified before the next grant`, async () => {
    const { url, witness } = await openDatabase()
    const proxy = await openProxy(url)
    const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url)]
    const held = await a.locks.acquire('x')
    let notifiedAt = Number.POSITIVE_INFINITY
    held.signal.addEventListener('abort', () => {
      notifiedAt = performance.now()
    })
    const next = b.locks.acquire('x').then((lock) => ({ lock, at: performance.now() }))
    await witness.seesWaiter()

    const silentAt = performance.now()
    proxy.silence(...silent)
    const granted = await within(4 * expiryMs, 'The next grant', next)

    console.log(
      `silence ${where}: holder notified after ${(notifiedAt - silentAt).toFixed(0)} ms, next granted after ${(granted.at - silentAt).toFixed(0)} ms`,
    )
    expect(notifiedAt).toBeLessThan(granted.at)
    expect(held.signal.reason).toBeInstanceOf(LockLostError)
    expect(granted.lock.fence).toBeGreaterThan(held.fence)
    // Only the old connections are silent, so the instance can connect again.
    await granted.lock.release()
    const again = await within(5_000, 'The grant after the reconnect', a.locks.acquire('x'))
    expect(again.fence).toBeGreaterThan(granted.lock.fence)
  })
}

test('a call that waits for a lock in a silent network waits again after the reconnect and leaves no session in the queue', async () => {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(url), await openInstance(proxy.through(url))]
  const held = await a.locks.acquire('x')
  const waiting = b.locks.acquire('x')
  await witness.seesWaiter()
  const old = new Set(await witness.sessions(b.id))
  proxy.silence('to-server', 'to-client')
  await until(
    'the silent sessions have ended',
    async () => !(await witness.sessions()).some((pid) => old.has(pid)),
    9_000,
  )
  await witness.seesWaiter()
  await held.release()
  const granted = await within(5_000, 'The grant', waiting)
  expect(granted.held).toBe(true)
  expect((await witness.locks()).filter((lock) => lock.granted)).toHaveLength(1)
})

test('an anchor connection that becomes silent before its first response is replaced', async () => {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const a = await openInstance(proxy.through(url))
  let isFirst = true
  proxy.onConnection = (link) => {
    if (isFirst) link.silenceOnceReady()
    isFirst = false
  }
  await witness.terminate(await witness.anchorOf(a.id!))
  const lock = await within(4 * expiryMs, 'The grant after the reconnect', a.locks.acquire('x'))
  expect(lock.held).toBe(true)
})

test('close does not wait for a silent network for longer than two expiries', async () => {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(url), await openInstance(proxy.through(url))]
  const held = await a.locks.acquire('x')
  const own = await b.locks.acquire('y')
  const waiting = b.locks.acquire('x').catch((error) => error)
  await witness.seesWaiter()
  // Its connection is now idle in the pool. It never reports its end.
  await b.jobs.enqueue(defineJob('work', { run: () => {} }), null)
  proxy.silence('to-server', 'to-client')
  await within(2 * expiryMs, 'Closing', b.close())
  expect(own.held).toBe(false)
  expect(await waiting).toMatchObject({ code: 'CLOSED' })
  expect(held.held).toBe(true)
  await until('only the holder is left', async () => (await witness.locks()).length === 1, 2 * expiryMs)
})

test('Holdfast.open throws within three expiries if its connection becomes silent', async () => {
  const { url } = await openDatabase()
  const proxy = await openProxy(url)
  proxy.onConnection = (link) => link.silenceOnceReady()
  const opened = open({ url: proxy.through(url), expiry: expiryMs }).catch((error) => error)
  expect(await within(3 * expiryMs, 'The failure of open', opened)).toMatchObject({ code: 'DATABASE_UNREACHABLE' })
})
