import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { within } from '../setup/facts.js'
import { openDatabase, openInstance } from './fixture.js'

// Late events: a cancel request that hits the next statement, and an entry in the server's queue whose waiter has left.

test('a cancel request that hits a later statement makes no call fail', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const held = await a.locks.acquire('x')
  const first = b.locks.acquire('x')
  await witness.seesWaiter()
  let isOver = false
  const canceller = (async () => {
    while (!isOver) {
      await witness.query(
        `select pg_cancel_backend(pid) from pg_stat_activity
         where application_name = $1 and pid <> (select backend_pid from holdfast.instance where id = $2)`,
        [`holdfast ${b.id}`, b.id],
      )
      await sleep(5)
    }
  })()
  await held.release()
  await (await within(15_000, 'The grant', first)).release()
  for (let round = 0; round < 200; round++) {
    const other = await a.locks.acquire('x')
    const waiting = [b.locks.acquire('x'), b.locks.acquire('x')]
    // The release comes at a random moment of the waits, so the cancel request can hit any of their statements.
    await sleep(Math.random() * 5)
    await other.release()
    for (const next of waiting) await (await within(15_000, 'The grant', next)).release()
  }
  isOver = true
  await canceller
  expect(await witness.locks()).toEqual([])
})

test('locks.tryAcquire of a shared lock returns null immediately although other readers wait', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url, { expiry: '60s' }), await openInstance(url, { expiry: '60s' })]
  const held = await a.locks.acquire('x')
  const waiting = b.locks.acquire('x', { mode: 'shared' })
  await witness.seesWaiter()
  expect(await within(15_000, 'The result', b.locks.tryAcquire('x', { mode: 'shared' }))).toBe(null)
  await held.release()
  await (await waiting).release()
})

test('a reader does not wait behind a writer that has aborted its wait', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url, { expiry: '60s' }), await openInstance(url, { expiry: '60s' })]
  const reader = await a.locks.acquire('x', { mode: 'shared' })
  const abort = new AbortController()
  const writer = b.locks.acquire('x', { signal: abort.signal }).catch((error) => error)
  await witness.seesWaiter()
  const second = b.locks.acquire('x', { mode: 'shared' })
  abort.abort(new Error('changed my mind'))
  expect(await writer).toMatchObject({ message: 'changed my mind' })
  const granted = await within(15_000, 'The grant to the reader', second)
  await granted.release()
  await reader.release()
})
