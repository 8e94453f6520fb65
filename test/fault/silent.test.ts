import { expect, test } from 'vitest'
import { LockLostError } from '../../src/index.js'
import { until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { expiryMs, openDatabase, openInstance, openProxy } from './fixture.js'
import type { Direction } from './silent-proxy.js'

// The network goes silent: nothing arrives any more, and nobody is told.

const directions: Record<string, Direction[]> = {
  'both ways': ['to-server', 'to-client'],
  'towards the server': ['to-server'],
  'towards the client': ['to-client'],
}

for (const [where, silent] of Object.entries(directions)) {
  test(`silence ${where}: the holder is told before the next one is granted`, async () => {
    const { url, witness } = await openDatabase()
    const proxy = await openProxy(url)
    const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url)]
    const held = await a.locks.acquire('x')
    let toldAt = Number.POSITIVE_INFINITY
    held.signal.addEventListener('abort', () => {
      toldAt = performance.now()
    })
    const next = b.locks.acquire('x').then((lock) => ({ lock, at: performance.now() }))
    await witness.seesWaiter()

    const silentAt = performance.now()
    proxy.silence(...silent)
    const granted = await within(4 * expiryMs, 'The next grant', next)

    console.log(
      `silence ${where}: told after ${(toldAt - silentAt).toFixed(0)} ms, next granted after ${(granted.at - silentAt).toFixed(0)} ms`,
    )
    expect(toldAt).toBeLessThan(granted.at)
    expect(held.signal.reason).toBeInstanceOf(LockLostError)
    expect(granted.lock.fence).toBeGreaterThan(held.fence)
    // The silence was that of old connections: a new life is possible.
    await granted.lock.release()
    const again = await within(5_000, 'The new life', a.locks.acquire('x'))
    expect(again.fence).toBeGreaterThan(granted.lock.fence)
  })
}

test('who waits in silence goes on waiting in the next life, and leaves nobody in the queue', async () => {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(url), await openInstance(proxy.through(url))]
  const held = await a.locks.acquire('x')
  const waiting = b.locks.acquire('x')
  await witness.seesWaiter()
  const old = new Set(await witness.sessions(b.id))
  proxy.silence('to-server', 'to-client')
  await until(
    'the silent sessions are gone',
    async () => !(await witness.sessions()).some((pid) => old.has(pid)),
    9_000,
  )
  await witness.seesWaiter()
  await held.release()
  const granted = await within(5_000, 'The grant', waiting)
  expect(granted.held).toBe(true)
  expect((await witness.locks()).filter((lock) => lock.granted)).toHaveLength(1)
})

test('a connection that falls silent before its first statement is answered is given up', async () => {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const a = await openInstance(proxy.through(url))
  let isFirst = true
  proxy.onConnection = (link) => {
    if (isFirst) link.silenceOnceReady()
    isFirst = false
  }
  await witness.terminate(await witness.anchorOf(a.id!))
  const lock = await within(4 * expiryMs, 'The next life', a.locks.acquire('x'))
  expect(lock.held).toBe(true)
})

test('closing does not wait for a silent network longer than the expiry', async () => {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(url), await openInstance(proxy.through(url))]
  const held = await a.locks.acquire('x')
  const own = await b.locks.acquire('y')
  const waiting = b.locks.acquire('x').catch((error) => error)
  await witness.seesWaiter()
  proxy.silence('to-server', 'to-client')
  await within(2 * expiryMs, 'Closing', b.close())
  expect(own.held).toBe(false)
  expect(await waiting).toMatchObject({ code: 'CLOSED' })
  expect(held.held).toBe(true)
  await until('only the holder is left', async () => (await witness.locks()).length === 1, 2 * expiryMs)
})

test('an open that falls silent fails in good time', async () => {
  const { url } = await openDatabase()
  const proxy = await openProxy(url)
  proxy.onConnection = (link) => link.silenceOnceReady()
  const opened = open({ url: proxy.through(url), expiry: expiryMs }).catch((error) => error)
  expect(await within(3 * expiryMs, 'Failing', opened)).toMatchObject({ code: 'DATABASE_UNREACHABLE' })
})
