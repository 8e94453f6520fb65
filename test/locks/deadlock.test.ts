import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DeadlockError, type Holdfast } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sqlPool, sqlSession } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { untilNoLocks, untilWaiting } from '../setup/locking.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

function nested(instance: Holdfast, outer: string, inner: string, whenHeld: () => Promise<void>): Promise<string> {
  return instance.locks.with(outer, async () => {
    await whenHeld()
    return instance.locks.with(inner, () => 'continued')
  })
}

/** Returns a function whose promises resolve when it has been called `count` times. */
function barrierOf(count: number): () => Promise<void> {
  let arrived = 0
  let open = () => {}
  const complete = new Promise<void>((resolve) => {
    open = resolve
  })
  return () => {
    if (++arrived === count) open()
    return complete
  }
}

describe('a deadlock of session locks, which PostgreSQL does not detect', () => {
  test.each(['two instances', 'one instance'])(
    'one of two callers of %s that nest locks in opposite orders fails, and the other continues',
    async (where) => {
      const a = await open({ url: fresh.url })
      const b = where === 'one instance' ? a : await open({ url: fresh.url })
      const [x, y] = [`${where} x`, `${where} y`]
      const meet = barrierOf(2)
      const begin = performance.now()
      const outcomes = await Promise.allSettled([nested(a, x, y, meet), nested(b, y, x, meet)])
      const tookMs = performance.now() - begin
      const failed = outcomes.filter((outcome) => outcome.status === 'rejected')
      expect(outcomes.filter((outcome) => outcome.status === 'fulfilled').map(({ value }) => value)).toEqual([
        'continued',
      ])
      expect(failed).toHaveLength(1)
      const error = failed[0]!.reason as DeadlockError
      expect(error).toBeInstanceOf(DeadlockError)
      expect(error).toMatchObject({ code: 'DEADLOCK', retryable: true })
      expect(error.cycle).toHaveLength(2)
      expect(error.message).toContain(`"${x}"`)
      expect(error.message).toContain(`"${y}"`)
      expect(error.message).toContain(`/${process.pid} waits for`)
      // Holdfast records a wait after one second, and must see the cycle twice, one second apart.
      expect(tookMs).toBeLessThan(8_000)
      await untilNoLocks(fresh.url)
    },
  )

  test('one of three callers in a cycle fails', async () => {
    const fleet = await Promise.all([1, 2, 3].map(() => open({ url: fresh.url })))
    const meet = barrierOf(3)
    const ring = fleet.map((instance, at) => nested(instance, `ring ${at}`, `ring ${(at + 1) % 3}`, meet))
    const outcomes = await Promise.allSettled(ring)
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')!
    expect(failed.reason).toBeInstanceOf(DeadlockError)
    expect(failed.reason.cycle).toHaveLength(3)
  })

  test('crossed waits of many shared holders end, and no session is lost', async () => {
    const group = 8
    const instance = await open({ url: fresh.url })
    let isLost = false
    instance.on('instance.lost', () => {
      isLost = true
    })
    const meet = barrierOf(2 * group)
    const crossed = (outer: string, inner: string) =>
      instance.locks.with(outer, { mode: 'shared' }, async () => {
        await meet()
        return instance.locks.with(inner, { wait: '25s' }, () => 'continued')
      })
    const begin = performance.now()
    const outcomes = await Promise.allSettled(
      Array.from({ length: group }, () => [crossed('left', 'right'), crossed('right', 'left')]).flat(),
    )
    const tookMs = performance.now() - begin
    expect(isLost).toBe(false)
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    expect(failures.every((reason) => reason instanceof DeadlockError)).toBe(true)
    expect(failures.length).toBeGreaterThanOrEqual(group)
    expect(failures.length).toBeLessThan(2 * group)
    expect(tookMs).toBeLessThan(15_000)
  }, 60_000)

  test('a long wait without a cycle does not fail', async () => {
    const [a, b] = [await open({ url: fresh.url }), await open({ url: fresh.url })]
    const held = await a.locks.acquire('no circle')
    const waiting = b.locks.with('outer of no circle', () => b.locks.with('no circle', () => 'came through'))
    await untilWaiting(fresh.url, held.keys[0]!)
    // The wait is recorded and checked for cycles.
    const client = await sqlSession(fresh.url)
    await expect
      .poll(async () => (await client.query('select key from holdfast.wait')).rows, { timeout: 10_000 })
      .toEqual([{ key: held.keys[0] }])
    await held.release()
    expect(await waiting).toBe('came through')
    await expect
      .poll(async () => (await client.query('select key from holdfast.wait')).rows, { timeout: 10_000 })
      .toEqual([])
  })
})

describe('a deadlock of transaction locks, which PostgreSQL detects', () => {
  test.each([4, 2])(
    'one of two transactions with opposite orders and a pool of %i fails, and the error names both locks',
    async (max) => {
      const pool = sqlPool({ connectionString: fresh.url, max })
      const { locks } = await open({ pool })
      const meet = barrierOf(2)
      const inOrder = async (first: string, second: string) => {
        const client = await pool.connect()
        try {
          await client.query('begin')
          await locks.inTransaction(client, first)
          await meet()
          await locks.inTransaction(client, second)
          return 'continued'
        } finally {
          await client.query('rollback')
          client.release()
        }
      }
      const outcomes = await Promise.allSettled([inOrder('tx one', 'tx two'), inOrder('tx two', 'tx one')])
      expect(outcomes.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(1)
      const { reason } = outcomes.find((outcome) => outcome.status === 'rejected')!
      expect(reason).toBeInstanceOf(DeadlockError)
      expect(reason.cycle).toHaveLength(2)
      expect(reason.message).toContain('"tx one"')
      expect(reason.message).toContain('"tx two"')
    },
  )
})
