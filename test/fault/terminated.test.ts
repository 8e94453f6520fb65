import { expect, onTestFinished, test } from 'vitest'
import { LockLostError } from '../../src/index.js'
import { sql, until, within } from '../setup/facts.js'
import { openDatabase, openInstance } from './fixture.js'

// Sessions that an administrator, the out-of-memory killer or `lock break` ends.

test('lock holders whose session is ended are notified, and the instance reconnects and continues to wait', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const held = await a.locks.acquire('x')
  const reader = await a.locks.acquire('y', { mode: 'shared' })
  const blocker = await b.locks.acquire('z')
  const waiting = a.locks.acquire('z')
  await witness.seesWaiter()
  const lost = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)))

  await witness.terminate(await witness.anchorOf(a.id!))

  expect(await within(5_000, 'The notification', lost)).toBeInstanceOf(LockLostError)
  expect(held.held).toBe(false)
  expect(reader.held).toBe(false)
  const next = await within(5_000, 'The next grant', b.locks.acquire('x'))
  expect(next.fence).toBeGreaterThan(held.fence)
  await blocker.release()
  const granted = await within(5_000, 'The grant to the waiting call', waiting)
  expect(granted.held).toBe(true)
  expect(granted.fence).toBeGreaterThan(blocker.fence)
  await Promise.all([granted, next, held, reader].map((lock) => lock.release()))
  await until('no lock is held', async () => (await witness.locks()).length === 0)
})

test('a call that waits for a lock behind a lost holder in the same process gets the name after the reconnect', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const lost = await a.locks.acquire('x')
  const waiting = a.locks.acquire('x', { wait: '20s' })
  await witness.terminate(await witness.anchorOf(a.id!))
  const granted = await within(10_000, 'The grant after the reconnect', waiting)
  expect(lost.held).toBe(false)
  expect(granted.held).toBe(true)
  expect(granted.fence).toBeGreaterThan(lost.fence)
})

test('an instance gives up the locks of its wait connections before it reports to a restarted server', async () => {
  const { url, witness } = await openDatabase()
  // The next heartbeat of the wait connection, which also detects the change, is seconds away.
  const [a, b] = [await openInstance(url, { expiry: '60s' }), await openInstance(url, { expiry: '60s' })]
  const blocker = await b.locks.acquire('y')
  const waiting = a.locks.acquire('y')
  await witness.seesWaiter()
  await blocker.release()
  const onWaitConnection = await waiting

  // After a crash, the row is missing. The session of the wait connection exists, like one behind a host that no longer responds.
  await sql(url, 'delete from holdfast.crash_witness')
  const heldWhenReported = until('the instance reports to the new generation', async () => {
    const [row] = await sql(
      url,
      `select from holdfast.instance join holdfast.server_generation using (generation) where id = '${a.id}' and reconnects > 0`,
    )
    return row && { held: onWaitConnection.held }
  })
  await witness.terminate(await witness.anchorOf(a.id!))

  expect(await heldWhenReported).toEqual({ held: false })
})

test('only the locks of a wait connection are lost when its session is ended', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const onAnchor = await a.locks.acquire('x')
  const blocker = await b.locks.acquire('y')
  const waiting = a.locks.acquire('y')
  await witness.seesWaiter()
  await blocker.release()
  const onWaitConnection = await waiting
  const behind = a.locks.acquire('y')
  const waitSession = (await witness.sessions(a.id)).at(-1)!
  await witness.terminate(waitSession)
  const again = await within(5_000, 'The grant to the call behind the lost lock', behind)
  expect(onWaitConnection.held).toBe(false)
  expect(again.fence).toBeGreaterThan(onWaitConnection.fence)
  expect(onAnchor.held).toBe(true)
})

test('a lock on several names acquires a name again that it lost while it waited for another name', async () => {
  const { url, witness } = await openDatabase()
  const [a, b, c] = [await openInstance(url), await openInstance(url), await openInstance(url)]
  const [first, second] = ['m', 'n'].sort((x, y) => (BigInt(a.locks.key(x)) < BigInt(a.locks.key(y)) ? -1 : 1))
  const blocker = await b.locks.acquire(second!)
  const waiting = a.locks.acquire(['m', 'n'], { wait: '20s' })
  await witness.seesWaiter()

  await witness.terminate(await witness.anchorOf(a.id!))
  // Another instance gets the lost name. The lock must wait for it.
  const other = await within(5_000, 'The grant of the lost name', c.locks.acquire(first!))
  await blocker.release()
  await until('the waiting call requests the lost name again', async () =>
    (await witness.locks()).some((lock) => lock.key === a.locks.key(first!) && !lock.granted),
  )
  await other.release()

  const both = await within(10_000, 'The grant of both', waiting)
  expect(both.held).toBe(true)
  expect(both.signal.aborted).toBe(false)
  expect(both.fence).toBeGreaterThan(other.fence)
  expect((await witness.locks()).filter(({ granted }) => granted)).toHaveLength(2)
})

test('a call for several names waits while the instance is reconnecting', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const held = await a.locks.acquire('x')
  const lost = new Promise<void>((resolve) => held.signal.addEventListener('abort', () => resolve()))
  await witness.terminate(await witness.anchorOf(a.id!))
  await lost
  const both = await within(10_000, 'The grant', a.locks.acquire(['y', 'z'], { wait: '20s' }))
  expect(both.held).toBe(true)
})

test('a loss while many calls wait emits no warning', async () => {
  const { url, witness } = await openDatabase()
  const a = await openInstance(url)
  const warnings: string[] = []
  const record = (warning: Error) => warnings.push(warning.message)
  process.on('warning', record)
  onTestFinished(() => void process.off('warning', record))
  const names = Array.from({ length: 20 }, (_, i) => `n${i}`)
  const locks = await Promise.all(names.map((name) => a.locks.acquire(name)))
  const abort = new AbortController()
  const waiting = names.map((name) => a.locks.acquire(name, { signal: abort.signal }))
  await witness.terminate(await witness.anchorOf(a.id!))
  await within(10_000, 'The grants after the reconnect', Promise.all(waiting))
  expect(locks.every((lock) => !lock.held)).toBe(true)
  expect(warnings).toEqual([])
})
