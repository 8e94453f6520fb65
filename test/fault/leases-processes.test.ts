import { describe, expect, test } from 'vitest'
import { within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { Child } from './children.js'
import { openDatabase, openInstance } from './fixture.js'
import { timed } from './leases.js'

// The process that holds a lease is killed, or frozen.

const ttlMs = 2_000

interface Told {
  fence: number
  held?: boolean
}

async function startHolder(url: string, anchor: string): Promise<{ holder: Child<Told>; fence: number }> {
  const holder = new Child<Told>('./lease-holder.ts', { url, ttlMs, name: 'x', anchor })
  const { fence } = await holder.first('it has the name')
  return { holder, fence }
}

describe.each(waysOf(['none', 'required']))('with anchor: %s', (anchor) => {
  test('killed: the name is free when the lease expires, and not before', async () => {
    const { url, witness } = await openDatabase()
    const a = await openInstance(url)
    const { holder, fence } = await startHolder(url, anchor)
    const waiting = timed(a.leases.acquire('x'))
    const from = performance.now()
    const [row] = await witness.query<{ left: number }>(
      'select (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as left from holdfast.lease',
    )
    holder.kill()
    const { lease, at } = await within(4 * ttlMs, 'The grant', waiting)
    console.log(`killed holder to next waiter: ${(at - from).toFixed(0)} ms, ttl ${ttlMs} ms`)
    // Or later, when a renewal was on its way.
    expect(at - from).toBeGreaterThanOrEqual(row!.left)
    expect(lease.fence).toBeGreaterThan(fence)
  })

  test('frozen past its time: another has the name, and the thawed holder knows it before it looks at anything', async () => {
    const { url } = await openDatabase()
    const a = await openInstance(url)
    const { holder, fence } = await startHolder(url, anchor)
    const waiting = timed(a.leases.acquire('x'))
    holder.process.kill('SIGSTOP')
    const { lease } = await within(4 * ttlMs, 'The grant', waiting)
    expect(lease.fence).toBeGreaterThan(fence)
    holder.process.kill('SIGUSR2')
    holder.process.kill('SIGCONT')
    const told = await holder.tells('its first look', ({ held }) => held !== undefined)
    expect(told).toEqual({ held: false, aborted: true, reason: 'LEASE_LOST', refused: 'HF001' })
    expect(lease.held).toBe(true)
  })
})
