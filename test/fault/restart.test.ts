import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { startEmbedded } from '../../src/embedded/index.js'
import { LockLostError } from '../../src/index.js'
import { until, within } from '../setup/facts.js'
import { expiryMs, openInstance, openProxy, openServer } from './fixture.js'

for (const mode of ['fast', 'immediate'] as const) {
  test(`a server that restarts (${mode}): the holder is told, whoever waits gets the name afterwards`, async () => {
    const { server, url, witness } = await openServer()
    const [a, b] = [await openInstance(url), await openInstance(url)]
    const held = await a.locks.acquire('x')
    const waiting = [b.locks.acquire('x'), b.locks.acquire('x'), a.locks.acquire(['x', 'y'])]
    await witness.seesWaiter()
    const told = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)))
    await server.restart(mode)
    expect(await within(5_000, 'Telling', told)).toBeInstanceOf(LockLostError)
    const fences: number[] = []
    const finished = waiting.map(async (asked) => {
      const lock = await asked
      expect(lock.held).toBe(true)
      fences.push(lock.fence)
      await lock.release()
    })
    await within(15_000, 'The grants', Promise.all(finished))
    expect(fences).toEqual(fences.toSorted((x, y) => x - y))
    expect(fences[0]).toBeGreaterThan(held.fence)
    await until('nothing is held', async () => (await witness.locks().catch(() => [1])).length === 0)
  })
}

test('a server that restarts while a holder is cut off: nobody is granted before the holder has stopped believing', async () => {
  const { server, url } = await openServer()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url)]
  const held = await a.locks.acquire('x')
  let toldAt = Number.POSITIVE_INFINITY
  held.signal.addEventListener('abort', () => {
    toldAt = performance.now()
  })
  proxy.silence('to-server', 'to-client')
  await server.restart('immediate')
  // On the new server the name is free at once, and only the cut-off holder does not know.
  const next = await within(4 * expiryMs, 'The next grant', b.locks.acquire('x'))
  expect(toldAt).toBeLessThan(performance.now())
  expect(held.signal.reason).toBeInstanceOf(LockLostError)
  expect(next.fence).toBeGreaterThan(held.fence)
})

test('a process of the server crashes and takes all sessions along: the same', async () => {
  const { server, url, witness } = await openServer()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(proxy.through(url)), await openInstance(url)]
  const held = await a.locks.acquire('x')
  let toldAt = Number.POSITIVE_INFINITY
  held.signal.addEventListener('abort', () => {
    toldAt = performance.now()
  })
  const [victim] = await witness.query<{ pid: number }>('select pg_backend_pid() as pid')
  proxy.silence('to-server', 'to-client')
  process.kill(victim!.pid, 'SIGKILL')
  await until('the crash is noticed', () => server.logTail().includes('all server processes terminated'))
  const next = await within(4 * expiryMs + 5_000, 'The next grant', b.locks.acquire('x'))
  expect(toldAt).toBeLessThan(performance.now())
  expect(next.fence).toBeGreaterThan(held.fence)
})

test('a server that restarts while everybody is well: nobody waits for an expiry', async () => {
  const { server, url } = await openServer()
  const longExpiry = { expiry: '60s' }
  const instances = await Promise.all([1, 2, 3].map(() => openInstance(url, longExpiry)))
  await server.restart('immediate')
  const locks = instances.map((instance, i) => instance.locks.acquire(`of ${i}`))
  await within(15_000, 'The new lives', Promise.all(locks))
})

test('a server that is away for 5 seconds: those who wait go on, those who would not are told', async () => {
  const { server, url, witness } = await openServer()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  await a.locks.acquire('x')
  const waiting = [b.locks.acquire('x'), b.locks.acquire('x', { mode: 'shared' }), b.locks.acquire(['x', 'z'])]
  const impatient = b.locks.acquire('x', { wait: '3s' }).catch((error) => error)
  await witness.seesWaiter()

  await server.stop()
  await until('the loss is noticed', () =>
    b.locks.tryAcquire('w').then(
      async (lock) => void (await lock?.release()),
      (error) => error.code === 'DATABASE_UNREACHABLE',
    ),
  )
  expect(await within(5_000, 'The end of a wait', impatient)).toMatchObject({ code: 'LOCK_TIMEOUT' })
  // An outage, which takes as long as it takes: whoever waits must not have given up.
  await sleep(2_000)
  const { dataDir, port } = server
  const again = await startEmbedded({ dataDir, port, settings: { fsync: 'off' } })
  onTestFinished(() => again.stop('immediate'))

  await within(15_000, 'The grants', Promise.all(waiting.map(async (asked) => (await asked).release())))
})
