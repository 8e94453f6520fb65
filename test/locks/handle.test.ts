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

const aborted = (signal: AbortSignal) => until('the signal aborts', () => signal.aborted)

describe('release', () => {
  test('may be asked for many times', async () => {
    const { locks } = await open({ url: fresh.url })
    const lock = await locks.acquire('often')
    const other = await locks.acquire('beside')
    await Promise.all([lock.release(), lock.release(), lock[Symbol.asyncDispose]()])
    await lock.release()
    expect(lock.held).toBe(false)
    expect(lock.signal.aborted).toBe(false)
    expect(await heldLocks(fresh.url, lock.keys[0])).toBe(0)
    expect(await heldLocks(fresh.url, other.keys[0])).toBe(1)
    await other.release()
  })

  test('of an old handle does not release the lock of a new one', async () => {
    const { locks } = await open({ url: fresh.url })
    const old = await locks.acquire('anew')
    await old.release()
    await using lock = await locks.acquire('anew')
    await old.release()
    expect(lock.held).toBe(true)
    expect(await heldLocks(fresh.url, lock.keys[0])).toBe(1)
  })

  test('of one reader leaves the others reading', async () => {
    const { locks } = await open({ url: fresh.url })
    const [one, other] = await Promise.all([1, 2].map(() => locks.acquire('readers', { mode: 'shared' })))
    await one!.release()
    expect([one!.held, other!.held]).toEqual([false, true])
    expect(await heldLocks(fresh.url, other!.keys[0])).toBe(1)
    await other!.release()
    expect(await heldLocks(fresh.url, other!.keys[0])).toBe(0)
  })

  test('happens when a block of "await using" ends', async () => {
    const { locks } = await open({ url: fresh.url })
    {
      await using lock = await locks.acquire('block')
      expect(await heldLocks(fresh.url, lock.keys[0])).toBe(1)
    }
    expect(await heldLocks(fresh.url, locks.key('block'))).toBe(0)
  })
})

describe('a session that the server ended', () => {
  test('aborts the signals of all that was held on it, with the reason', async () => {
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

  test('aborts a signal that is asked for only afterwards', async () => {
    const { locks } = await open({ url: fresh.url })
    const lock = await locks.acquire('asked late')
    await terminateHolder(fresh.url, lock.keys[0]!)
    await until('it is lost', () => !lock.held)
    expect(lock.signal.reason).toBeInstanceOf(LockLostError)
  })

  test('fails work that went to its end although the lock was lost', async () => {
    const { locks } = await open({ url: fresh.url })
    const work = locks.with('to the end', async (lock) => {
      await terminateHolder(fresh.url, lock.keys[0]!)
      await aborted(lock.signal)
      return 'done'
    })
    expect(await caught(LockLostError, work)).toMatchObject({ lock: 'to the end' })
  })

  test('does not hide what the work itself threw', async () => {
    const { locks } = await open({ url: fresh.url })
    const reason = new Error('because it was lost')
    const work = locks.with('own error', async (lock) => {
      await terminateHolder(fresh.url, lock.keys[0]!)
      await aborted(lock.signal)
      throw reason
    })
    await expect(work).rejects.toBe(reason)
  })

  test('is no loss of a lock that was released before', async () => {
    const { locks } = await open({ url: fresh.url })
    const beside = await locks.acquire('beside the released')
    const result = await locks.with('released early', async (lock) => {
      await lock.release()
      await terminateHolder(fresh.url, beside.keys[0]!)
      await aborted(beside.signal)
      expect(lock.signal.aborted).toBe(false)
      return 'fine'
    })
    expect(result).toBe('fine')
  })

  test('lets those who wait go on waiting, and they get the name', async () => {
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

describe('re-entrance inside with', () => {
  test.each([
    ['exclusive', 'exclusive'],
    ['exclusive', 'shared'],
    ['shared', 'exclusive'],
  ] as const)('%s, then %s: would wait for itself, so it is a mistake', async (outer, inner) => {
    const { locks } = await open({ url: fresh.url })
    const client = await sqlSession(fresh.url)
    await client.query('begin')
    await locks.with('itself', { mode: outer }, async () => {
      for (const ask of [
        () => locks.acquire('itself', { mode: inner }),
        () => locks.tryAcquire('itself', { mode: inner }),
        () => locks.acquire(['beside itself', 'itself'], { mode: inner }),
        () => locks.with('between', () => locks.acquire('itself', { mode: inner })),
        () => locks.inTransaction(client, ['beside itself', 'itself'], { mode: inner, wait: 50 }),
        () => locks.tryInTransaction(client, 'itself', { mode: inner }),
      ]) {
        const error = await caught(UsageError, ask)
        expect(error.message).toBe(
          `"itself" is already held (${outer}) by the handler that is requesting it (${inner})`,
        )
      }
    })
    await untilNoLocks(fresh.url)
  })

  test('a reader may read again while a writer of its own process waits, and jumps no other queue by that', async () => {
    const { locks } = await open({ url: fresh.url })
    const names = ['read again here', 'read by another']
    const other = await locks.acquire('read by another', { mode: 'shared' })
    let begin = () => {}
    const writersWait = new Promise<void>((resolve) => (begin = resolve))
    const reading = locks.with('read again here', { mode: 'shared' }, async (outer) => {
      await writersWait
      const inner = await locks.tryAcquire('read again here', { mode: 'shared' })
      expect(inner?.fence).toBe(outer.fence)
      await inner!.release()
      expect(outer.held).toBe(true)
      expect(await locks.tryAcquire(names, { mode: 'shared', wait: 50 })).toBeNull()
    })
    await until('it reads', async () => (await heldLocks(fresh.url, locks.key('read again here'))) === 1)
    // In the queue of this process at once, for it is this process that reads.
    const writing = names.map((name) => locks.acquire(name))
    begin()
    await reading
    await other.release()
    for (const lock of await Promise.all(writing)) await lock.release()
  })

  test('a reader may read in a transaction, too', async () => {
    const { locks } = await open({ url: fresh.url })
    const client = await sqlSession(fresh.url)
    await client.query('begin')
    await locks.with('read in both', { mode: 'shared' }, async ({ fence }) => {
      const inner = await locks.inTransaction(client, 'read in both', { mode: 'shared' })
      expect(inner.fence).toBeGreaterThan(fence)
    })
  })

  test('a reader may read again, even while a writer waits elsewhere', async () => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    const begin = performance.now()
    const writes = await a.locks.with('read again', { mode: 'shared' }, async (outer) => {
      const writing = b.locks.acquire('read again')
      await untilWaiting(fresh.url, outer.keys[0]!)
      // For longer than readers join without asking.
      await until('a second and a half has passed', () => performance.now() - begin > 1_500)
      await a.locks.with('read again', { mode: 'shared', wait: '5s' }, () => {})
      await using inner = await a.locks.acquire('read again', { mode: 'shared', wait: '5s' })
      expect(inner.held).toBe(true)
      return { writing }
    })
    await (await writes.writing).release()
  })

  test('another flow of the same process waits as everybody does', async () => {
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
      await until('it is held', async () => (await heldLocks(fresh.url, locks.key(name))) === 1)
    }
  })

  test('what was released inside may be taken again', async () => {
    const { locks } = await open({ url: fresh.url })
    await locks.with('again', async (lock) => {
      await lock.release()
      await using second = await locks.acquire('again', { wait: '1s' })
      expect(second.fence).toBeGreaterThan(lock.fence)
    })
  })

  test('another instance is another holder: it is told that the name is busy', async () => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    await a.locks.with('other instance', async () => {
      expect(await b.locks.tryAcquire('other instance')).toBeNull()
    })
  })
})

describe('a release that an operator asks for', () => {
  test('aborts the signal, and the lock is still held', async () => {
    const { locks } = await open({ url: fresh.url })
    const lock = await locks.acquire('wanted')
    const beside = await locks.acquire('not wanted')
    const { signal } = lock
    await sql(fresh.url, `select pg_notify('holdfast', 'lock-release-requested ' || $1)`, [lock.keys[0]])
    await aborted(signal)
    expect(signal.reason).toBeInstanceOf(ReleaseRequestedError)
    expect(signal.reason).toMatchObject({ code: 'RELEASE_REQUESTED', lock: 'wanted' })
    expect(lock.held).toBe(true)
    expect(beside.signal.aborted).toBe(false)
    expect(await heldLocks(fresh.url, lock.keys[0])).toBe(1)
    await lock.release()
    await beside.release()
  })

  test('work that ends after it is no failure', async () => {
    const { locks } = await open({ url: fresh.url })
    const result = await locks.with('finishing', async (lock) => {
      await sql(fresh.url, `select pg_notify('holdfast', 'lock-release-requested ' || $1)`, [lock.keys[0]])
      await aborted(lock.signal)
      return 'finished'
    })
    expect(result).toBe('finished')
  })

  test('messages that cannot be understood disturb nothing', async () => {
    const { locks } = await open({ url: fresh.url })
    await using lock = await locks.acquire('undisturbed')
    for (const payload of [
      '',
      'lock-release-requested',
      'lock-release-requested abc',
      'nonsense 1 2 3',
      `lock-release-requested ${lock.keys[0]}x`,
    ]) {
      await sql(fresh.url, `select pg_notify('holdfast', $1)`, [payload])
    }
    await using marker = await locks.acquire('marker')
    await sql(fresh.url, `select pg_notify('holdfast', 'lock-release-requested ' || $1)`, [marker.keys[0]])
    await aborted(marker.signal)
    expect(lock.signal.aborted).toBe(false)
  })
})
