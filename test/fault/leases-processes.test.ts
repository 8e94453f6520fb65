import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { within } from '../setup/facts.js'
import { waysOf } from '../setup/hurry.js'
import { timed } from './leases.js'
import { openDatabase, openInstance } from './stage.js'

// The process that holds a lease is killed, or frozen.

const program = fileURLToPath(new URL('./lease-holder.mjs', import.meta.url))
const ttlMs = 2_000

async function startHolder(url: string, anchor: string): Promise<{ holder: ChildProcess; fence: number }> {
  const holder = fork(program, [JSON.stringify({ url, ttlMs, name: 'x', anchor })])
  onTestFinished(() => void holder.kill('SIGKILL'))
  const [{ fence }] = (await within(20_000, 'Taking the name', once(holder, 'message'))) as [{ fence: number }]
  return { holder, fence }
}

describe.each(waysOf('the anchor of processes', ['required', 'none']))('with anchor: %s', (anchor) => {
  test('killed: the name is free when the lease expires, and not before', async () => {
    const { url, witness } = await openDatabase()
    const a = await openInstance(url)
    const { holder, fence } = await startHolder(url, anchor)
    const waiting = timed(a.leases.acquire('x'))
    const [row] = await witness.query<{ left: number }>(
      'select (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as left from holdfast.lease',
    )
    const from = performance.now()
    holder.kill('SIGKILL')
    const { lease, at } = await within(4 * ttlMs, 'The grant', waiting)
    console.log(`killed holder to next waiter: ${(at - from).toFixed(0)} ms, ttl ${ttlMs} ms`)
    // A renewal may have been on its way.
    expect(at - from).toBeGreaterThan(row!.left - 100)
    expect(at - from).toBeLessThan(ttlMs + 1_000)
    expect(lease.fence).toBeGreaterThan(fence)
  })

  test('frozen past its time: another has the name, and the thawed holder knows it before it looks at anything', async () => {
    const { url } = await openDatabase()
    const a = await openInstance(url)
    const { holder, fence } = await startHolder(url, anchor)
    const waiting = timed(a.leases.acquire('x'))
    const frozenAt = performance.now()
    holder.kill('SIGSTOP')
    const { lease, at } = await within(4 * ttlMs, 'The grant', waiting)
    expect(at - frozenAt).toBeLessThan(ttlMs + 1_000)
    expect(lease.fence).toBeGreaterThan(fence)
    const look = once(holder, 'message')
    holder.kill('SIGUSR2')
    holder.kill('SIGCONT')
    const [told] = await within(5_000, 'The first look', look)
    expect(told).toEqual({ held: false, aborted: true, reason: 'LEASE_LOST', refused: 'HF001' })
    expect(lease.held).toBe(true)
  })
})
