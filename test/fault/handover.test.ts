import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { until, within } from '../setup/facts.js'
import { expiryMs, openDatabase, openInstance } from './stage.js'

// From a holder that dies, or stands still, to the next one that waits.

const program = fileURLToPath(new URL('./holder.mjs', import.meta.url))
const kills = 5

async function startHolder(url: string, name: string): Promise<{ holder: ChildProcess; fence: number }> {
  const holder = fork(program, [JSON.stringify({ url, expiryMs, name })])
  onTestFinished(() => void holder.kill('SIGKILL'))
  const [{ fence }] = (await within(20_000, 'Taking the name', once(holder, 'message'))) as [{ fence: number }]
  return { holder, fence }
}

test(`after each of ${kills} kills the next waiter has the name`, { timeout: 120_000 }, async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const took: number[] = []
  // Several start together, for that is what takes time; they are killed one after the other.
  const batch = 5
  let holders: Awaited<ReturnType<typeof startHolder>>[] = []
  for (let kill = 0; kill < kills; kill++) {
    const name = `n${kill % batch}`
    if (holders.length === 0) {
      holders = await Promise.all(Array.from({ length: batch }, (_, i) => startHolder(url, `n${i}`)))
    }
    const { holder, fence } = holders.shift()!
    const waiting = a.locks.acquire(name).then((lock) => ({ lock, at: performance.now() }))
    await witness.seesWaiter()
    const killedAt = performance.now()
    holder.kill('SIGKILL')
    const { lock, at } = await within(5_000, 'The grant', waiting)
    took.push(at - killedAt)
    expect(lock.fence).toBeGreaterThan(fence)
    await lock.release()
  }
  took.sort((x, y) => x - y)
  const at = (part: number) => took[Math.min(took.length - 1, Math.floor(took.length * part))]!
  console.log(
    `killed holder to next waiter, ${kills} kills: p50 ${at(0.5).toFixed(1)} ms, p90 ${at(0.9).toFixed(1)} ms, p99 ${at(0.99).toFixed(1)} ms`,
  )
  // How fast it is `npm run bench` says. Here a slower kind of handover fails, one that waits for a heartbeat or the expiry.
  expect(at(0.5)).toBeLessThan(expiryMs / 4)
})

test('a frozen holder loses the name within the expiry, and knows it when it is thawed', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const { holder, fence } = await startHolder(url, 'x')
  const waiting = a.locks.acquire('x').then((lock) => ({ lock, at: performance.now() }))
  await witness.seesWaiter()
  const frozenAt = performance.now()
  holder.kill('SIGSTOP')
  const { lock, at } = await within(4 * expiryMs, 'The grant', waiting)
  console.log(`frozen holder to next waiter: ${(at - frozenAt).toFixed(0)} ms, expiry ${expiryMs} ms`)
  expect(at - frozenAt).toBeLessThan(expiryMs + 1_000)
  expect(lock.fence).toBeGreaterThan(fence)
  const look = once(holder, 'message')
  holder.kill('SIGUSR2')
  holder.kill('SIGCONT')
  const [{ held }] = await within(5_000, 'The first look', look)
  expect(held).toBe(false)
  expect(lock.held).toBe(true)
})

test('a blocked event loop: the first look after it says no, before anything else has run', async () => {
  const { url } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const quiet = await a.locks.acquire('x')
  const { signal } = await b.locks.acquire('y')
  const before = performance.now()
  while (performance.now() - before < expiryMs) Math.sqrt(2)
  expect(quiet.held).toBe(false)
  expect(quiet.signal.aborted).toBe(true)
  await until('the signal speaks by itself', () => signal.aborted, 1_000)
})

test('a waiter that is killed leaves the queue of the server in less than a second', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const lock = await a.locks.acquire('x')
  const waiter = fork(program, [JSON.stringify({ url, expiryMs: 60_000, name: 'x' })])
  onTestFinished(() => void waiter.kill('SIGKILL'))
  await witness.seesWaiter()
  const killedAt = performance.now()
  waiter.kill('SIGKILL')
  await until('nobody waits', async () => (await witness.locks()).every(({ granted }) => granted), 5_000)
  console.log(`killed waiter out of the queue: ${(performance.now() - killedAt).toFixed(0)} ms`)
  expect(performance.now() - killedAt).toBeLessThan(2_000)
  await lock.release()
})

test('CREATE INDEX CONCURRENTLY comes through although somebody waits for a name', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const lock = await a.locks.acquire('x')
  const waiting = b.locks.acquire('x')
  await witness.seesWaiter()
  await witness.query('create table busy as select generate_series(1, 1000) as id')
  await within(10_000, 'The index', witness.query('create index concurrently on busy (id)'))
  await lock.release()
  await (await within(5_000, 'The grant', waiting)).release()
})
