import { describe, expect, test } from 'vitest'
import { LeaseLostError } from '../../src/index.js'
import { caught, stays, until, within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { openDatabase, openInstance, openProxy } from './fixture.js'
import { timed, whenNotified } from './leases.js'
import type { Direction } from './silent-proxy.js'

// Leases in a network that becomes silent: no data arrives, and neither side is notified.

const ttlMs = 2_000

const directions: Record<string, Direction[]> = {
  'in both directions': ['to-server', 'to-client'],
  'towards the server': ['to-server'],
  'towards the client': ['to-client'],
}

describe.each(waysOf(['required', 'none']))('with anchor: %s', (anchor) => {
  test.each(Object.entries(directions))(
    'the holder of a lease in a network that is silent %s is notified before the next grant',
    async (_, silent) => {
      const { url } = await openDatabase()
      const proxy = await openProxy(url)
      const [a, b] = [await openInstance(proxy.through(url), { anchor }), await openInstance(url)]
      const held = await a.leases.acquire('x', { ttl: ttlMs })
      const notification = whenNotified(held)
      const waiting = timed(b.leases.acquire('x'))
      // New connections are as silent as the old ones.
      proxy.onConnection = (link) => link.silence(...silent)
      const silentAt = performance.now()
      proxy.silence(...silent)
      const notified = await within(4 * ttlMs, 'The notification', notification)
      // A renewal whose response is lost extends the lease by another third.
      const { lease, at } = await within(4 * ttlMs, 'The next grant', waiting)
      console.log(
        `silence, anchor ${anchor}: holder notified after ${(notified.at - silentAt).toFixed(0)} ms, next granted after ${(at - silentAt).toFixed(0)} ms`,
      )
      expect(notified.at).toBeLessThan(at)
      expect(lease.fence).toBeGreaterThan(held.fence)
      // New connections work again.
      proxy.onConnection = () => {}
      await lease.release()
      const again = await within(15_000, 'The next lease', a.leases.acquire('x'))
      expect(again.fence).toBeGreaterThan(lease.fence)
      await proxy.close()
    },
  )

  test('a lease is renewed over new connections if only the old ones are silent', async () => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor, expiry: '60s' })
    const lease = await a.leases.acquire('x', { ttl: '6s' })
    proxy.silence('to-server', 'to-client')
    await stays('the lease is held', () => lease.held, 12_000)
    // Otherwise, closing the instance would wait for the silent connections.
    await proxy.close()
  })

  test('lease.extend throws as soon as the lease is lost if its response does not arrive', async () => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor, expiry: '60s' })
    const lease = await a.leases.acquire('x', { ttl: ttlMs })
    proxy.onConnection = (link) => link.silence('to-client')
    proxy.silence('to-client')
    await caught(LeaseLostError, within(4 * ttlMs, 'The failure of extend', lease.extend()))
    await proxy.close()
  })

  test('leases.acquire throws if the response to the grant is lost, and the name becomes free', async () => {
    const { url, witness } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor, expiry: '60s' })
    await a.leases.with('x', () => {})
    proxy.silence('to-client')
    const from = performance.now()
    await expect(
      within(15_000, 'The failure of acquire', a.leases.acquire('x', { ttl: '1h', wait: '1s' })),
    ).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
    })
    expect(performance.now() - from).toBeLessThan(5_000)
    await until(
      'the name is free',
      async () => (await witness.query('select from holdfast.lease where expires_at > clock_timestamp()')).length === 0,
    )
    await proxy.close()
  })

  test('a call that waits for a lease in a silent network continues to wait and gets the name', async () => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const [a, b] = [await openInstance(url), await openInstance(proxy.through(url), { anchor })]
    const held = await a.leases.acquire('x')
    const waiting = b.leases.acquire('x')
    await within(5_000, 'tryAcquire', b.leases.tryAcquire('x'))
    proxy.silence('to-server', 'to-client')
    await held.release()
    const lease = await within(20_000, 'The grant', waiting)
    expect(lease.held).toBe(true)
  })

  test('close does not wait long for a silent network', async () => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor })
    const lease = await a.leases.acquire('x', { ttl: '1h' })
    // Long enough that the instance has a sample of this hold to write.
    await stays('the lease is held', () => lease.held, 1_100)
    proxy.onConnection = (link) => link.silence('to-client', 'to-server')
    proxy.silence('to-server', 'to-client')
    await within(13_000, 'Closing', a.close())
    expect(lease.held).toBe(false)
  })
})
