import { expect, test } from 'vitest'
import { until, within } from '../setup/facts.js'
import { Child, quantiles } from './children.js'
import { expiryMs, openDatabase, openInstance } from './fixture.js'

// Handovers from a holder that is killed or frozen to the next waiter.

const kills = 5

interface Message {
  fence: number
  held?: boolean
}

const startHolder = (url: string, name: string, ownExpiryMs: number) =>
  new Child<Message>('./holder.ts', { url, expiryMs: ownExpiryMs, name })

test(`the next waiter gets the name after each of ${kills} kills of a holder`, { timeout: 120_000 }, async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const took: number[] = []
  // All holders start at the same time, because starting takes long. A handover that waited for the expiry would take a minute.
  const holders = Array.from({ length: kills }, (_, i) => startHolder(url, `n${i}`, 60_000))
  for (const [i, holder] of holders.entries()) {
    const name = `n${i}`
    const { fence } = await holder.first('the fence of its lock')
    const waiting = a.locks.acquire(name).then((lock) => ({ lock, at: performance.now() }))
    await witness.seesWaiter()
    const killedAt = performance.now()
    holder.kill()
    const { lock, at } = await within(15_000, 'The grant', waiting)
    took.push(at - killedAt)
    expect(lock.fence).toBeGreaterThan(fence)
    await lock.release()
  }
  // `npm run bench` measures the time precisely.
  console.log(`from the kill of a holder to the next waiter, ${quantiles(took)}`)
})

test('a frozen holder loses the name after its expiry and knows of the loss as soon as it is thawed', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const holder = startHolder(url, 'x', expiryMs)
  const { fence } = await holder.first('the fence of its lock')
  const waiting = a.locks.acquire('x').then((lock) => ({ lock, at: performance.now() }))
  await witness.seesWaiter()
  const frozenAt = performance.now()
  holder.process.kill('SIGSTOP')
  const { lock, at } = await within(4 * expiryMs, 'The grant', waiting)
  console.log(`from the freeze of a holder to the next waiter: ${(at - frozenAt).toFixed(0)} ms, expiry ${expiryMs} ms`)
  expect(lock.fence).toBeGreaterThan(fence)
  holder.process.kill('SIGUSR2')
  holder.process.kill('SIGCONT')
  expect(await holder.waitFor('its first check', ({ held }) => held !== undefined)).toMatchObject({ held: false })
  expect(lock.held).toBe(true)
})

test('a lock is no longer held at the first check after the event loop was blocked for longer than the expiry', async () => {
  const { url } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const lock = await a.locks.acquire('x')
  const { signal } = await b.locks.acquire('y')
  const before = performance.now()
  while (performance.now() - before < expiryMs) Math.sqrt(2)
  expect(lock.held).toBe(false)
  expect(lock.signal.aborted).toBe(true)
  await until('the signal aborts without a read of `held`', () => signal.aborted)
})

test('a killed waiter leaves the queue of the server before its expiry', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const lock = await a.locks.acquire('x')
  const waiter = startHolder(url, 'x', 60_000)
  await witness.seesWaiter()
  const killedAt = performance.now()
  waiter.kill()
  await until('no session waits', async () => (await witness.locks()).every(({ granted }) => granted))
  console.log(
    `from the kill of a waiter to its removal from the queue: ${(performance.now() - killedAt).toFixed(0)} ms`,
  )
  await lock.release()
})

test('CREATE INDEX CONCURRENTLY completes although an instance waits for a name', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const lock = await a.locks.acquire('x')
  const waiting = b.locks.acquire('x')
  await witness.seesWaiter()
  await witness.query('create table busy as select generate_series(1, 1000) as id')
  await within(10_000, 'Building the index', witness.query('create index concurrently on busy (id)'))
  await lock.release()
  await (await within(5_000, 'The grant', waiting)).release()
})
