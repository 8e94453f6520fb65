import { expect, onTestFinished, test } from 'vitest'
import { LockLostError } from '../../src/index.js'
import { until, within } from '../setup/facts.js'
import { openDatabase, openInstance } from './fixture.js'

// The backend of a session is ended from outside: by an administrator, the out-of-memory killer, `lock break`.

test('the handles are told, a new life begins, and whoever waits goes on waiting', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const held = await a.locks.acquire('x')
  const reader = await a.locks.acquire('y', { mode: 'shared' })
  const blocker = await b.locks.acquire('z')
  const waiting = a.locks.acquire('z')
  await witness.seesWaiter()
  const told = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)))

  await witness.terminate(await witness.anchorOf(a.id!))

  expect(await within(5_000, 'Telling', told)).toBeInstanceOf(LockLostError)
  expect(held.held).toBe(false)
  expect(reader.held).toBe(false)
  const next = await within(5_000, 'The next grant', b.locks.acquire('x'))
  expect(next.fence).toBeGreaterThan(held.fence)
  await blocker.release()
  const granted = await within(5_000, 'The grant to the one who waited', waiting)
  expect(granted.held).toBe(true)
  expect(granted.fence).toBeGreaterThan(blocker.fence)
  await Promise.all([granted, next, held, reader].map((lock) => lock.release()))
  await until('nothing is held', async () => (await witness.locks()).length === 0)
})

test('whoever waits in the same process behind the lost holder gets the name in the next life', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const lost = await a.locks.acquire('x')
  const waiting = a.locks.acquire('x', { wait: '20s' })
  await witness.terminate(await witness.anchorOf(a.id!))
  const granted = await within(10_000, 'The grant in the next life', waiting)
  expect(lost.held).toBe(false)
  expect(granted.held).toBe(true)
  expect(granted.fence).toBeGreaterThan(lost.fence)
})

test('a parked session that holds is lost alone: its handles are told, those of the anchor are not', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const onAnchor = await a.locks.acquire('x')
  const blocker = await b.locks.acquire('y')
  const waiting = a.locks.acquire('y')
  await witness.seesWaiter()
  await blocker.release()
  const onPlace = await waiting
  const behind = a.locks.acquire('y')
  const parked = (await witness.sessions(a.id)).at(-1)!
  await witness.terminate(parked)
  const again = await within(5_000, 'The grant to the one behind', behind)
  expect(onPlace.held).toBe(false)
  expect(again.fence).toBeGreaterThan(onPlace.fence)
  expect(onAnchor.held).toBe(true)
})

test('of several names, one that was lost while another was waited for is taken again before anybody gets the lock', async () => {
  const { url, witness } = await openDatabase()
  const [a, b, c] = [await openInstance(url), await openInstance(url), await openInstance(url)]
  const [first, second] = ['m', 'n'].sort((x, y) => (BigInt(a.locks.key(x)) < BigInt(a.locks.key(y)) ? -1 : 1))
  const blocker = await b.locks.acquire(second!)
  const waiting = a.locks.acquire(['m', 'n'], { wait: '20s' })
  await witness.seesWaiter()

  await witness.terminate(await witness.anchorOf(a.id!))
  // Whoever takes the name now must not be ignored.
  const thief = await within(5_000, 'Taking what was lost', c.locks.acquire(first!))
  await blocker.release()
  await until('the one who waited asks for the lost name again', async () =>
    (await witness.locks()).some((lock) => lock.key === a.locks.key(first!) && !lock.granted),
  )
  await thief.release()

  const both = await within(10_000, 'The grant of both', waiting)
  expect(both.held).toBe(true)
  expect(both.signal.aborted).toBe(false)
  expect(both.fence).toBeGreaterThan(thief.fence)
  expect((await witness.locks()).filter(({ granted }) => granted)).toHaveLength(2)
})

test('several names that are asked for between two lives are waited for', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const held = await a.locks.acquire('x')
  const told = new Promise<void>((resolve) => held.signal.addEventListener('abort', () => resolve()))
  await witness.terminate(await witness.anchorOf(a.id!))
  await told
  const both = await within(10_000, 'The grant', a.locks.acquire(['y', 'z'], { wait: '20s' }))
  expect(both.held).toBe(true)
})

test('a loss with many who wait says nothing on the console', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const warnings: string[] = []
  const note = (warning: Error) => warnings.push(warning.message)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  const names = Array.from({ length: 20 }, (_, i) => `n${i}`)
  const locks = await Promise.all(names.map((name) => a.locks.acquire(name)))
  const abort = new AbortController()
  const waiting = names.map((name) => a.locks.acquire(name, { signal: abort.signal }))
  await witness.terminate(await witness.anchorOf(a.id!))
  await within(10_000, 'All grants in the next life', Promise.all(waiting))
  expect(locks.every((lock) => !lock.held)).toBe(true)
  expect(warnings).toEqual([])
})
