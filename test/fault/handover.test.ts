import { expect, test } from 'vitest'
import { until, within } from '../setup/facts.js'
import { Child, quantiles } from './children.js'
import { expiryMs, openDatabase, openInstance } from './fixture.js'

// From a holder that dies, or stands still, to the next one that waits.

const kills = 5

interface Told {
  fence: number
  held?: boolean
}

const startHolder = (url: string, name: string, ownExpiryMs: number) =>
  new Child<Told>('./holder.ts', { url, expiryMs: ownExpiryMs, name })

test(`after each of ${kills} kills the next waiter has the name`, { timeout: 120_000 }, async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const took: number[] = []
  // They start together, for that is what takes time. A handover that waited for their expiry would take a minute.
  const holders = Array.from({ length: kills }, (_, i) => startHolder(url, `n${i}`, 60_000))
  for (const [i, holder] of holders.entries()) {
    const name = `n${i}`
    const { fence } = await holder.first('it has the name')
    const waiting = a.locks.acquire(name).then((lock) => ({ lock, at: performance.now() }))
    await witness.seesWaiter()
    const killedAt = performance.now()
    holder.kill()
    const { lock, at } = await within(15_000, 'The grant', waiting)
    took.push(at - killedAt)
    expect(lock.fence).toBeGreaterThan(fence)
    await lock.release()
  }
  // How fast it is `npm run bench` says.
  console.log(`killed holder to next waiter, ${quantiles(took)}`)
})

test('a frozen holder loses the name at the expiry, and knows it when it is thawed', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const holder = startHolder(url, 'x', expiryMs)
  const { fence } = await holder.first('it has the name')
  const waiting = a.locks.acquire('x').then((lock) => ({ lock, at: performance.now() }))
  await witness.seesWaiter()
  const frozenAt = performance.now()
  holder.process.kill('SIGSTOP')
  const { lock, at } = await within(4 * expiryMs, 'The grant', waiting)
  console.log(`frozen holder to next waiter: ${(at - frozenAt).toFixed(0)} ms, expiry ${expiryMs} ms`)
  expect(lock.fence).toBeGreaterThan(fence)
  holder.process.kill('SIGUSR2')
  holder.process.kill('SIGCONT')
  expect(await holder.tells('its first look', ({ held }) => held !== undefined)).toMatchObject({ held: false })
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
  await until('the signal speaks by itself', () => signal.aborted)
})

test('a waiter that is killed leaves the queue of the server, whatever its expiry', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const lock = await a.locks.acquire('x')
  const waiter = startHolder(url, 'x', 60_000)
  await witness.seesWaiter()
  const killedAt = performance.now()
  waiter.kill()
  await until('nobody waits', async () => (await witness.locks()).every(({ granted }) => granted))
  console.log(`killed waiter out of the queue: ${(performance.now() - killedAt).toFixed(0)} ms`)
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
