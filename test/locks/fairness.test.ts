// A writer must get the lock although new readers keep arriving.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { untilWaiting } from '../setup/locking.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

test.each(['another instance', 'the same instance'])(
  'a writer of %s gets the lock while readers keep arriving',
  async (where) => {
    const readers = await open({ url: fresh.url })
    const writer = where === 'the same instance' ? readers : await open({ url: fresh.url })
    let reading = 0
    let done = false
    // Twelve readers overlap, so that the lock is never free.
    const readRepeatedly = async (at: number) => {
      while (!done) {
        await readers.locks.with('often read', { mode: 'shared' }, async () => {
          reading++
          await new Promise((resolve) => setTimeout(resolve, 20 + at))
          reading--
        })
      }
    }
    const all = Promise.all(Array.from({ length: 12 }, (_, at) => readRepeatedly(at)))
    await until('nine readers hold the lock', () => reading > 8)
    try {
      await writer.locks.with('often read', { wait: '10s' }, () => expect(reading).toBe(0))
    } finally {
      done = true
      await all
    }
  },
)

test('a reader that arrives after a waiting writer of the same process gets the lock after the writer', async () => {
  const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
  const reader = await a.locks.acquire('after the writer', { mode: 'shared' })
  const writing = b.locks.acquire('after the writer')
  await untilWaiting(fresh.url, reader.keys[0]!)
  const later = b.locks.acquire('after the writer', { mode: 'shared' })
  await reader.release()
  const write = await writing
  expect(write.mode).toBe('exclusive')
  await write.release()
  await using last = await later
  expect(last.fence).toBeGreaterThan(write.fence)
})

test('an instance waits for more names than it has wait connections', async () => {
  const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url, waitConnections: 1 })]
  const names = Array.from({ length: 6 }, (_, at) => `waited for ${at}`)
  const held = await Promise.all(names.map((name) => a.locks.acquire(name)))
  const waiting = names.map((name) => b.locks.acquire(name, { wait: '20s' }))
  await untilWaiting(fresh.url, b.locks.key(names[0]!))
  for (const lock of held.reverse()) await lock.release()
  for (const lock of await Promise.all(waiting)) await lock.release()
})
