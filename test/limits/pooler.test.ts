// Tests permits and rates through PgBouncer in transaction mode, with a direct anchor and without an anchor.
import { describe, expect, test } from 'vitest'
import { LimitReachedError } from '../../src/index.js'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { caught, until, within } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { nothingInUse, untilQueued } from './facts.js'

describe.skipIf(withoutPgBouncer)('limits behind PgBouncer in transaction mode', () => {
  test.each(['direct', 'none'])('permits and rates are exact with anchor: %s', async (anchor) => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 5, roundRobin: true })
    const url = pooler.through(direct)
    const options = anchor === 'none' ? { url, anchor } : { url, directUrl: direct }
    const [a, b] = [await open(options as never), await open(options as never)]
    const permits = [await a.limits.acquire('x', { max: 2 }), await b.limits.acquire('x', { max: 2 })]
    await caught(LimitReachedError, a.limits.acquire('x', { max: 2 }))
    const waiting = b.limits.acquire('x', { max: 2, wait: '20s' })
    await untilQueued(direct, 'x', 1)
    await permits[0]!.release()
    const third = await within(5_000, 'the grant', waiting)
    expect(third.fence).toBeGreaterThan(permits[1]!.fence)
    let inside = 0
    const rounds = Array.from({ length: 60 }, (_, i) =>
      (i % 2 ? a : b).limits.with(`y${i % 2}`, { max: 3, wait: '20s' }, () => {
        expect(++inside).toBeLessThanOrEqual(6)
        inside--
      }),
    )
    await within(20_000, 'the rounds', Promise.all(rounds))
    await Promise.all([permits[1]!, third].map((permit) => permit.release()))
    await until('nothing is in use', () => nothingInUse(direct))
    const decisions = Array.from({ length: 40 }, (_, i) => (i % 2 ? a : b).limits.consume('r', { rate: '25/d' }))
    expect((await Promise.all(decisions)).filter(({ allowed }) => allowed)).toHaveLength(25)
  })
})
