import { describe, expect, test } from 'vitest'
import { LeaseLostError } from '../../src/index.js'
import { caught, stays, until, within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { openDatabase, openInstance, openProxy } from './fixture.js'
import { timed, whenTold } from './leases.js'
import type { Direction } from './silent-proxy.js'

// The network goes silent: nothing arrives any more, and nobody is told.

const ttlMs = 2_000

const directions: Record<string, Direction[]> = {
  'both ways': ['to-server', 'to-client'],
  'towards the server': ['to-server'],
  'towards the client': ['to-client'],
}

describe.each(waysOf(['required', 'none']))('with anchor: %s', (anchor) => {
  test.each(Object.entries(directions))(
    'silence %s: the holder is told before the next one is granted',
    async (_, silent) => {
      const { url } = await openDatabase()
      const proxy = await openProxy(url)
      const [a, b] = [await openInstance(proxy.through(url), { anchor }), await openInstance(url)]
      const held = await a.leases.acquire('x', { ttl: ttlMs })
      const telling = whenTold(held)
      const waiting = timed(b.leases.acquire('x'))
      // New connections are as silent as the old ones.
      proxy.onConnection = (link) => link.silence(...silent)
      const silentAt = performance.now()
      proxy.silence(...silent)
      const told = await within(4 * ttlMs, 'Telling', telling)
      // What is renewed without our hearing of it may live on for another third.
      const { lease, at } = await within(4 * ttlMs, 'The next grant', waiting)
      console.log(
        `silence, anchor ${anchor}: told after ${(told.at - silentAt).toFixed(0)} ms, next granted after ${(at - silentAt).toFixed(0)} ms`,
      )
      expect(told.at).toBeLessThan(at)
      expect(lease.fence).toBeGreaterThan(held.fence)
      // The network is back.
      proxy.onConnection = () => {}
      await lease.release()
      const again = await within(15_000, 'The next lease', a.leases.acquire('x'))
      expect(again.fence).toBeGreaterThan(lease.fence)
      await proxy.close()
    },
  )

  test('only the old connections fell silent: the lease lives on over new ones', async () => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor, expiry: '60s' })
    const lease = await a.leases.acquire('x', { ttl: '6s' })
    proxy.silence('to-server', 'to-client')
    await stays('the lease is held, for two of its lives', () => lease.held, 12_000)
    // Closing would wait for the silence.
    await proxy.close()
  })

  test('an extension that is not answered fails as soon as the lease is lost', async () => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor, expiry: '60s' })
    const lease = await a.leases.acquire('x', { ttl: ttlMs })
    proxy.onConnection = (link) => link.silence('to-client')
    proxy.silence('to-client')
    await caught(LeaseLostError, within(4 * ttlMs, 'Failing', lease.extend()))
    await proxy.close()
  })

  test('granted, and the answer lost: the caller has nothing, and nothing stays taken', async () => {
    const { url, witness } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor, expiry: '60s' })
    await a.leases.with('x', () => {})
    proxy.silence('to-client')
    const from = performance.now()
    await expect(within(15_000, 'Failing', a.leases.acquire('x', { ttl: '1h', wait: '1s' }))).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
    })
    expect(performance.now() - from).toBeLessThan(5_000)
    await until(
      'the name is free',
      async () => (await witness.query('select from holdfast.lease where expires_at > clock_timestamp()')).length === 0,
    )
    await proxy.close()
  })

  test('whoever waits in silence goes on waiting, and gets the name when the network is back', async () => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const [a, b] = [await openInstance(url), await openInstance(proxy.through(url), { anchor })]
    const held = await a.leases.acquire('x')
    const waiting = b.leases.acquire('x')
    await within(5_000, 'Looking', b.leases.tryAcquire('x'))
    proxy.silence('to-server', 'to-client')
    await held.release()
    const lease = await within(20_000, 'The grant', waiting)
    expect(lease.held).toBe(true)
  })

  test('closing does not wait for a silent network for long', async () => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor })
    const lease = await a.leases.acquire('x', { ttl: '1h' })
    // So long that there is something to write down about it.
    await stays('the lease is held', () => lease.held, 1_100)
    proxy.onConnection = (link) => link.silence('to-client', 'to-server')
    proxy.silence('to-server', 'to-client')
    await within(13_000, 'Closing', a.close())
    expect(lease.held).toBe(false)
  })
})
