// Tests `once` behind PgBouncer in transaction mode, with a direct anchor and without an anchor.
import postgres from 'postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Holdfast } from '../../src/index.js'
import { countEffects, effect, makeEffects } from '../once/effects.js'
import { sqlSession } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { startPooler, withoutPgBouncer } from './pgbouncer.js'

async function exercise(url: string, one: Holdfast, other: Holdfast): Promise<void> {
  const calls = Array.from({ length: 40 }, (_, i) =>
    (i % 2 ? one : other).once.run(`k${i % 8}`, { wait: '10s' }, ({ tx }) => effect(tx, `k${i % 8}`).then(() => i)),
  )
  const answers = await Promise.all(calls)
  expect(answers.filter(({ status }) => status === 'done')).toHaveLength(8)
  for (const [i, answer] of answers.entries()) {
    expect(answer).toMatchObject({ value: (answers[i % 8] as { value: number }).value })
  }
  for (let i = 0; i < 8; i++) expect(await countEffects(url, `k${i}`)).toBe(1)
}

describe.skipIf(withoutPgBouncer)('once behind PgBouncer in transaction mode', () => {
  test.each(['required', 'none'] as const)('each key runs once with anchor: %s', async (anchor) => {
    const direct = await databaseUrl()
    await makeEffects(direct)
    const pooler = await startPooler({ mode: 'transaction', backends: 12, roundRobin: true })
    const url = pooler.through(direct)
    const options = { url, anchor, ...(anchor === 'required' ? { directUrl: direct } : {}) }
    const [one, other] = [await open(options), await open(options)]
    await exercise(direct, one, other)

    const client = await sqlSession(url)
    await client.query('begin')
    const inside = await one.once.inTransaction(client, 'inside', ({ tx }) => effect(tx, 'inside').then(() => 1))
    expect(inside).toEqual({ status: 'done', value: 1 })
    expect(await other.once.run('inside', () => 2)).toEqual({ status: 'in-progress' })
    await client.query('commit')
    expect(await other.once.run('inside', () => 2)).toEqual({ status: 'replayed', value: 1 })
    // The settings of a run apply only to its transaction.
    const { rows } = await client.query('show idle_in_transaction_session_timeout')
    expect(rows).toEqual([{ idle_in_transaction_session_timeout: '0' }])
  })

  test('each key runs once with postgres.js', async () => {
    const direct = await databaseUrl()
    await makeEffects(direct)
    const pooler = await startPooler({ mode: 'transaction', backends: 12 })
    const client = postgres(pooler.through(direct), { prepare: false, max: 6, onnotice: () => {} })
    onTestFinished(() => client.end())
    const [one, other] = [await open({ sql: client, anchor: 'none' }), await open({ sql: client, directUrl: direct })]
    await exercise(direct, one, other)
  })
})
