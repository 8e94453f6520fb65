import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LockLostError, ReleaseRequestedError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { heldLocks, terminateHolder, untilNoLocks, untilWaiting } from '../setup/locking.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const aborted = (signal: AbortSignal) => until('the signal is aborted', () => signal.aborted)

describe('lock.release', () => {
  test('release can be called several times', async () => {
    const { locks } = await open({ url: fresh.url })
    const lock = await locks.acquire('often')
    const other = await locks.acquire('another')
    await Promise.all([lock.release(), lock.release(), lock[Symbol.asyncDispose]()])
    await lock.release()
    expect(lock.held).toBe(false)
    expect(lock.signal.aborted).toBe(false)
    expect(await heldLocks(fresh.url, lock.keys[0])).toBe(0)
    expect(await heldLocks(fresh.url, other.keys[0])).toBe(1)
    await other.release()
  })

  test('release of an old handle does not release the lock of a new handle', async () => {
    const { locks } = await open({ url: fresh.url })
    const old = await locks.acquire('acquired twice')
    await old.release()
    await using lock = await locks.acquire('acquired twice')
    await old.release()
    expect(lock.held).toBe(true)
    expect(await heldLocks(fresh.url, lock.keys[0])).toBe(1)
  })

  test('release of one reader does not release the lock of another reader', async () => {
    const { locks } = await open({ url: fresh.url })
    const [one, other] = await Promise.all([1, 2].map(() => locks.acquire('readers', { mode: 'shared' })))
    await one!.release()
    expect([one!.held, other!.held]).toEqual([false, true])
    expect(await heldLocks(fresh.url, other!.keys[0])).toBe(1)
    await other!.release()
    expect(await heldLocks(fresh.url, other!.keys[0])).toBe(0)
  })

  test('a lock is released at the end of an "await using" block', async () => {
    const { locks } = await open({ url: fresh.url })
    {
      await using lock = await locks.acquire('block')
      expect(await heldLocks(fresh.url, lock.keys[0])).toBe(1)
    }
    expect(await heldLocks(fresh.url, locks.key('block'))).toBe(0)
  })
})

describe('a lock whose session the server terminates', () => {
  test('the signals of all locks of the session abort with a LockLostError', async () => {
    const { locks } = await open({ url: fresh.url })
    const held = await Promise.all(['lost 1', 'lost 2'].map((name) => locks.acquire(name)))
    const signals = held.map(({ signal }) => signal)
    await terminateHolder(fresh.url, held[0]!.keys[0]!)
    for (const [at, signal] of signals.entries()) {
      await aborted(signal)
      expect(signal.reason).toBeInstanceOf(LockLostError)
      expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', lock: `lost ${at + 1}`, fence: held[at]!.fence })
      expect(held[at]!.held).toBe(false)
      await held[at]!.release()
    }
    await using again = await locks.acquire('lost 1', { wait: '10s' })
    expect(again.fence).toBeGreaterThan(held[0]!.fence)
  })

  test('a signal that is first read after the loss is aborted', async () => {
    const { locks } = await open({ url: fresh.url })
    const lock = await locks.acquire('asked late')
    await terminateHolder(fresh.url, lock.keys[0]!)
    await until('the lock is lost', () => !lock.held)
    expect(lock.signal.reason).toBeInstanceOf(LockLostError)
  })

  test('locks.with rejects if the lock was lost, although the handler returns', async () => {
    const { locks } = await open({ url: fresh.url })
    const work = locks.with('to the end', async (lock) => {
      await terminateHolder(fresh.url, lock.keys[0]!)
      await aborted(lock.signal)
      return 'done'
    })
    expect(await caught(LockLostError, work)).toMatchObject({ lock: 'to the end' })
  })

  test('locks.with rejects with the error of the handler if the lock was lost and the handler throws', async () => {
    const { locks } = await open({ url: fresh.url })
    const reason = new Error('because it was lost')
    const work = locks.with('own error', async (lock) => {
      await terminateHolder(fresh.url, lock.keys[0]!)
      await aborted(lock.signal)
      throw reason
    })
    await expect(work).rejects.toBe(reason)
  })

  test('a lock that was released before the session ends is not lost', async () => {
    const { locks } = await open({ url: fresh.url })
    const other = await locks.acquire('not released')
    const result = await locks.with('released early', async (lock) => {
      await lock.release()
      await terminateHolder(fresh.url, other.keys[0]!)
      await aborted(other.signal)
      expect(lock.signal.aborted).toBe(false)
      return 'fine'
    })
    expect(result).toBe('fine')
  })

  test('a waiter whose session ends keeps waiting and gets the lock', async () => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    const held = await a.locks.acquire('waited for')
    const waiting = b.locks.acquire('waited for')
    await untilWaiting(fresh.url, held.keys[0]!)
    await sql(
      fresh.url,
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast ' || $1`,
      [b.id],
    )
    await untilWaiting(fresh.url, held.keys[0]!)
    await held.release()
    await using lock = await waiting
    expect(lock.held).toBe(true)
  })
})

describe('nested requests inside locks.with', () => {
  test.each([
    ['exclusive', 'exclusive'],
    ['exclusive', 'shared'],
    ['shared', 'exclusive'],
  ] as const)(
    'a handler with the %s lock that requests the same lock as %s is refused, because it would wait for itself',
    async (outer, inner) => {
      const { locks } = await open({ url: fresh.url })
      const client = await sqlSession(fresh.url)
      await client.query('begin')
      await locks.with('itself', { mode: outer }, async () => {
        for (const request of [
          () => locks.acquire('itself', { mode: inner }),
          () => locks.tryAcquire('itself', { mode: inner }),
          () => locks.acquire(['another name', 'itself'], { mode: inner }),
          () => locks.with('between', () => locks.acquire('itself', { mode: inner })),
          () => locks.inTransaction(client, ['another name', 'itself'], { mode: inner, wait: 50 }),
          () => locks.tryInTransaction(client, 'itself', { mode: inner }),
        ]) {
          const error = await caught(UsageError, request)
          expect(error.message).toBe(
            `"itself" is already held (${outer}) by the handler that is requesting it (${inner})`,
          )
        }
      })
      await untilNoLocks(fresh.url)
    },
  )

  test('a reader can read again while a writer of its process waits, but does not overtake writers of other names', async () => {
    const { locks } = await open({ url: fresh.url })
    const names = ['read again here', 'read by another']
    const other = await locks.acquire('read by another', { mode: 'shared' })
    let startReading = () => {}
    const writersWait = new Promise<void>((resolve) => (startReading = resolve))
    const reading = locks.with('read again here', { mode: 'shared' }, async (outer) => {
      await writersWait
      const inner = await locks.tryAcquire('read again here', { mode: 'shared' })
      expect(inner?.fence).toBe(outer.fence)
      await inner!.release()
      expect(outer.held).toBe(true)
      expect(await locks.tryAcquire(names, { mode: 'shared', wait: 50 })).toBeNull()
    })
    await until('the reader has the lock', async () => (await heldLocks(fresh.url, locks.key('read again here'))) === 1)
    // The writers join the queue of this process immediately, because this process holds the locks.
    const writing = names.map((name) => locks.acquire(name))
    startReading()
    await reading
    await other.release()
    for (const lock of await Promise.all(writing)) await lock.release()
  })

  test('a reader can also read the same name in a transaction', async () => {
    const { locks } = await open({ url: fresh.url })
    const client = await sqlSession(fresh.url)
    await client.query('begin')
    await locks.with('read in both', { mode: 'shared' }, async ({ fence }) => {
      const inner = await locks.inTransaction(client, 'read in both', { mode: 'shared' })
      expect(inner.fence).toBeGreaterThan(fence)
    })
  })

  test('a reader can read again while a writer of another instance waits', async () => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    const begin = performance.now()
    const writes = await a.locks.with('read again', { mode: 'shared' }, async (outer) => {
      const writing = b.locks.acquire('read again')
      await untilWaiting(fresh.url, outer.keys[0]!)
      // After this time, readers no longer share the lock without a statement.
      await until('a second and a half has passed', () => performance.now() - begin > 1_500)
      await a.locks.with('read again', { mode: 'shared', wait: '5s' }, () => {})
      await using inner = await a.locks.acquire('read again', { mode: 'shared', wait: '5s' })
      expect(inner.held).toBe(true)
      return { writing }
    })
    await (await writes.writing).release()
  })

  test('another call in the same process waits for the lock', async () => {
    const { locks } = await open({ url: fresh.url })
    const order: string[] = []
    await Promise.all([
      locks.with('flows', async () => {
        await untilHeld('flows')
        order.push('first')
      }),
      locks.with('flows', () => order.push('second')),
    ])
    expect(order).toEqual(['first', 'second'])

    async function untilHeld(name: string) {
      await until('the lock is held', async () => (await heldLocks(fresh.url, locks.key(name))) === 1)
    }
  })

  test('a handler can release its lock and acquire it again', async () => {
    const { locks } = await open({ url: fresh.url })
    await locks.with('again', async (lock) => {
      await lock.release()
      await using second = await locks.acquire('again', { wait: '1s' })
      expect(second.fence).toBeGreaterThan(lock.fence)
    })
  })

  test('a nested request of another instance in the same process does not get the lock', async () => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    await a.locks.with('other instance', async () => {
      expect(await b.locks.tryAcquire('other instance')).toBeNull()
    })
  })
})

/** Sends the notification of an operator's request, which names the instance that holds the lock. */
const requestRelease = (key: string, instance: string) =>
  sql(fresh.url, `select pg_notify('holdfast', $1)`, [`lock-release-requested ${key} ${instance}`])

describe('a release request of an operator', () => {
  test('a release request aborts the signal and does not release the lock', async () => {
    const { locks, id } = await open({ url: fresh.url })
    const lock = await locks.acquire('wanted')
    const other = await locks.acquire('not wanted')
    const { signal } = lock
    await requestRelease(lock.keys[0]!, id)
    await aborted(signal)
    expect(signal.reason).toBeInstanceOf(ReleaseRequestedError)
    expect(signal.reason).toMatchObject({ code: 'RELEASE_REQUESTED', lock: 'wanted' })
    expect(lock.held).toBe(true)
    expect(other.signal.aborted).toBe(false)
    expect(await heldLocks(fresh.url, lock.keys[0])).toBe(1)
    await lock.release()
    await other.release()
  })

  test('locks.with returns the result of a handler that ends after a release request', async () => {
    const { locks, id } = await open({ url: fresh.url })
    const result = await locks.with('finishing', async (lock) => {
      await requestRelease(lock.keys[0]!, id)
      await aborted(lock.signal)
      return 'finished'
    })
    expect(result).toBe('finished')
  })

  test('invalid notifications do not abort the signal', async () => {
    const { locks, id } = await open({ url: fresh.url })
    await using lock = await locks.acquire('undisturbed')
    for (const payload of [
      '',
      'lock-release-requested',
      'lock-release-requested abc',
      'nonsense 1 2 3',
      `lock-release-requested ${lock.keys[0]}`,
      `lock-release-requested ${lock.keys[0]}x ${id}`,
      `lock-release-requested ${lock.keys[0]} another-instance`,
    ]) {
      await sql(fresh.url, `select pg_notify('holdfast', $1)`, [payload])
    }
    await using marker = await locks.acquire('marker')
    await requestRelease(marker.keys[0]!, id)
    await aborted(marker.signal)
    expect(lock.signal.aborted).toBe(false)
  })
})
