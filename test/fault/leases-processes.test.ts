import { describe, expect, test } from 'vitest'
import { within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { Child } from './children.js'
import { openDatabase, openInstance } from './fixture.js'
import { timed } from './leases.js'

// Processes that are killed or frozen while they hold a lease.

const ttlMs = 2_000

interface Message {
  fence: number
  held?: boolean
}

async function startHolder(url: string, anchor: string): Promise<{ holder: Child<Message>; fence: number }> {
  const holder = new Child<Message>('./lease-holder.ts', { url, ttlMs, name: 'x', anchor })
  const { fence } = await holder.first('the fence of its lease')
  return { holder, fence }
}

describe.each(waysOf(['none', 'required']))('with anchor: %s', (anchor) => {
  test('the lease of a killed process is free when it expires and not before', async () => {
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
    console.log(`from the kill of a holder to the next waiter: ${(at - from).toFixed(0)} ms, ttl ${ttlMs} ms`)
    // The grant may come later if a renewal was in progress.
    expect(at - from).toBeGreaterThanOrEqual(row!.left)
    expect(lease.fence).toBeGreaterThan(fence)
  })

  test('the lease of a frozen process is granted to another, and the thawed process knows of the loss immediately', async () => {
    const { url } = await openDatabase()
    const a = await openInstance(url)
    const { holder, fence } = await startHolder(url, anchor)
    const waiting = timed(a.leases.acquire('x'))
    holder.process.kill('SIGSTOP')
    const { lease } = await within(4 * ttlMs, 'The grant', waiting)
    expect(lease.fence).toBeGreaterThan(fence)
    holder.process.kill('SIGUSR2')
    holder.process.kill('SIGCONT')
    const check = await holder.waitFor('its first check', ({ held }) => held !== undefined)
    expect(check).toEqual({ held: false, aborted: true, reason: 'LEASE_LOST', refused: 'HF001' })
    expect(lease.held).toBe(true)
  })
})
