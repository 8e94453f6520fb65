import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { startEmbedded } from '../../src/embedded/index.js'
import { LockLostError } from '../../src/index.js'
import { until, within } from '../setup/facts.js'
import { expiryMs, openDatabase, openInstance, openProxy, openServer } from './fixture.js'

for (const mode of ['fast', 'immediate'] as const) {
  test(`a holder is notified of a server restart (${mode}), and waiting calls get the name afterwards`, async () => {
    const { server, url, witness } = await openServer()
    const [a, b] = [await openInstance(url), await openInstance(url)]
    const held = await a.locks.acquire('x')
    const waiting = [b.locks.acquire('x'), b.locks.acquire('x'), a.locks.acquire(['x', 'y'])]
    await witness.seesWaiter()
    const lost = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)))
    await server.restart(mode)
    expect(await within(5_000, 'The notification', lost)).toBeInstanceOf(LockLostError)
    const fences: number[] = []
    const finished = waiting.map(async (call) => {
      const lock = await call
      expect(lock.held).toBe(true)
      fences.push(lock.fence)
      await lock.release()
    })
    await within(15_000, 'The grants', Promise.all(finished))
    expect(fences).toEqual(fences.toSorted((x, y) => x - y))
    expect(fences[0]).toBeGreaterThan(held.fence)
    await until('no lock is held', async () => (await witness.locks().catch(() => [1])).length === 0)
  })
}

test('a lock is not granted after a server restart before a disconnected holder has given it up', async () => {
  const { server, url } = await openServer()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url)]
  const held = await a.locks.acquire('x')
  let notifiedAt = Number.POSITIVE_INFINITY
  held.signal.addEventListener('abort', () => {
    notifiedAt = performance.now()
  })
  proxy.silence('to-server', 'to-client')
  await server.restart('immediate')
  // The name is free on the restarted server, and the disconnected holder does not know of the restart.
  const next = await within(4 * expiryMs, 'The next grant', b.locks.acquire('x'))
  expect(notifiedAt).toBeLessThan(performance.now())
  expect(held.signal.reason).toBeInstanceOf(LockLostError)
  expect(next.fence).toBeGreaterThan(held.fence)
})

test('a lock is not granted after a crash of a server process before a disconnected holder has given it up', async () => {
  const { server, url, witness } = await openServer()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url)]
  const held = await a.locks.acquire('x')
  let notifiedAt = Number.POSITIVE_INFINITY
  held.signal.addEventListener('abort', () => {
    notifiedAt = performance.now()
  })
  const [victim] = await witness.query<{ pid: number }>('select pg_backend_pid() as pid')
  proxy.silence('to-server', 'to-client')
  process.kill(victim!.pid, 'SIGKILL')
  await until('the server has noticed the crash', () => server.logTail().includes('all server processes terminated'))
  const next = await within(4 * expiryMs + 5_000, 'The next grant', b.locks.acquire('x'))
  expect(notifiedAt).toBeLessThan(performance.now())
  expect(next.fence).toBeGreaterThan(held.fence)
})

test('locks are granted before the expiry if all instances reconnect after a server restart', async () => {
  const { server, url } = await openServer()
  const longExpiry = { expiry: '60s' } as const
  const instances = await Promise.all([1, 2, 3].map(() => openInstance(url, longExpiry)))
  await server.restart('immediate')
  const locks = instances.map((instance, i) => instance.locks.acquire(`of ${i}`))
  await within(15_000, 'The grants', Promise.all(locks))
})

test('waiting calls survive a server outage of several seconds, and a call with a short wait times out', async () => {
  const { server, url, witness } = await openServer()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  await a.locks.acquire('x')
  const waiting = [b.locks.acquire('x'), b.locks.acquire('x', { mode: 'shared' }), b.locks.acquire(['x', 'z'])]
  const impatient = b.locks.acquire('x', { wait: '3s' }).catch((error) => error)
  await witness.seesWaiter()

  await server.stop()
  await until('the instance notices the loss', () =>
    b.locks.tryAcquire('w').then(
      async (lock) => void (await lock?.release()),
      (error) => error.code === 'DATABASE_UNREACHABLE',
    ),
  )
  expect(await within(5_000, 'The timeout', impatient)).toMatchObject({ code: 'DATABASE_UNREACHABLE' })
  // The outage continues. The other waiting calls must not give up.
  await sleep(2_000)
  const { dataDir, port } = server
  const again = await startEmbedded({ dataDir, port, settings: { fsync: 'off' } })
  onTestFinished(() => again.stop('immediate'))

  await within(15_000, 'The grants', Promise.all(waiting.map(async (call) => (await call).release())))
})

test('calls during an outage end after the time in `wait`, and retries in a loop do not block the event loop', async () => {
  const { server, url } = await openServer()
  const { locks, leases } = await openInstance(url)
  const tryCode = () =>
    locks.tryAcquire('x').then(
      async (lock) => await lock?.release(),
      ({ code }) => code,
    )
  await server.stop()
  await until('the instance notices the loss', async () => (await tryCode()) === 'DATABASE_UNREACHABLE')
  const wait = '500ms'
  const lockError = locks.acquire('x', { wait }).catch(({ code }) => code)
  const leaseError = leases.acquire('x', { wait }).catch(({ code }) => code)
  expect(await within(5_000, 'The end of the wait for the lock', lockError)).toBe('DATABASE_UNREACHABLE')
  expect(await within(5_000, 'The end of the wait for the lease', leaseError)).toBe('DATABASE_UNREACHABLE')
  const later = new Promise<boolean>((resolve) => setTimeout(resolve, 10, true))
  await retriedUntil(later, tryCode)
})

test('a loop that tries to acquire a busy lock of the same process does not block the event loop', async () => {
  const { url } = await openDatabase()
  const { locks } = await openInstance(url)
  const held = await locks.acquire('x')
  const released = new Promise((resolve) => setTimeout(resolve, 10)).then(() => held.release())
  await retriedUntil(
    released.then(() => true),
    async () => {
      await (await locks.tryAcquire('x'))?.release()
    },
  )
})

/** Repeats the call without a pause until `ended` is true. Fails if other work gets no turn for a long time. */
async function retriedUntil(ended: Promise<boolean>, call: () => Promise<unknown>): Promise<void> {
  let hasEnded = false
  void ended.then(() => (hasEnded = true))
  const until = performance.now() + 5_000
  while (!hasEnded && performance.now() < until) await call()
  expect(hasEnded).toBe(true)
}
