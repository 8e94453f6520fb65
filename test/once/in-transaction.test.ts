import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { FingerprintMismatchError, RecordedFailureError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlPool, sqlSession, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { countEffects, deliveries, effect, gate, makeEffects } from './effects.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await makeEffects(fresh.url)
})
afterAll(() => fresh.drop())

async function beginTransaction() {
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  return client
}

describe.each(['required', 'none'] as const)('once.inTransaction with anchor: %s', (anchor) => {
  const two = async () => {
    const [one, other] = [await open({ url: fresh.url, anchor }), await open({ url: fresh.url, anchor })]
    return { one: one.once, other: other.once }
  }

  test('the result commits with the transaction, and duplicates are in progress until then', async () => {
    const { one, other } = await two()
    const key = `${anchor} commits`
    const client = await beginTransaction()
    const answer = await one.inTransaction(client, key, async ({ tx, fence, signal }) => {
      expect(fence).toBeGreaterThan(0)
      expect(signal.aborted).toBe(false)
      await effect(tx, key)
      await effect(client, key)
      return 'first'
    })
    expect(answer).toEqual({ status: 'done', value: 'first' })
    const client2 = await beginTransaction()
    for (const once of [one, other]) {
      expect(
        await within(
          3_000,
          'the duplicate',
          once.run(key, () => 'second'),
        ),
      ).toEqual({ status: 'in-progress' })
      expect(await once.run(key, { wait: 50 }, () => 'second')).toEqual({ status: 'in-progress' })
      expect(await once.inTransaction(client2, key, () => 'second')).toEqual({ status: 'in-progress' })
    }
    // Runs of other keys do not wait.
    expect(await other.run(`${key} unrelated`, () => 1)).toEqual({ status: 'done', value: 1 })
    const waiting = [one, other].map((once) => once.run(key, { wait: '10s' }, () => 'second'))
    const inside = other.inTransaction(client2, key, { wait: '10s' }, () => 'second')
    await client.query('commit')
    for (const found of await Promise.all([...waiting, inside])) {
      expect(found).toEqual({ status: 'replayed', value: 'first' })
    }
    await client2.query('commit')
    expect(await countEffects(fresh.url, key)).toBe(2)
  })

  test('a rollback by the caller frees the key and undoes the effect', async () => {
    const { one, other } = await two()
    const key = `${anchor} rolls back`
    const client = await beginTransaction()
    await one.inTransaction(client, key, ({ tx }) => effect(tx, key).then(() => 1))
    const waiting = other.run(key, { wait: '10s' }, ({ tx }) => effect(tx, key).then(() => 2))
    await client.query('rollback')
    expect(await waiting).toEqual({ status: 'done', value: 2 })
    expect(await countEffects(fresh.url, key)).toBe(1)
  })

  test("the death of the caller's session frees the key", async () => {
    const { one, other } = await two()
    const key = `${anchor} dies`
    const client = await beginTransaction()
    const [row] = (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows
    await one.inTransaction(client, key, ({ tx }) => effect(tx, key).then(() => 1))
    const witness = await sqlSession(fresh.url)
    await witness.query('select pg_terminate_backend($1)', [row!.pid])
    const answer = await other.inTransaction(await beginTransaction(), key, { wait: '10s' }, () => 2)
    expect(answer).toEqual({ status: 'done', value: 2 })
  })

  test('a key that another instance is running is not run again', async () => {
    const { one, other } = await two()
    const key = `${anchor} elsewhere`
    const opening = gate()
    const begin = gate()
    const first = other.run(key, async ({ tx }) => {
      begin.open()
      await effect(tx, key)
      await opening.opened
      return 'first'
    })
    await begin.opened
    const client = await beginTransaction()
    expect(await one.inTransaction(client, key, () => 'second')).toEqual({ status: 'in-progress' })
    const waiting = one.inTransaction(client, key, { wait: '10s' }, () => 'second')
    opening.open()
    expect(await first).toEqual({ status: 'done', value: 'first' })
    expect(await waiting).toEqual({ status: 'replayed', value: 'first' })
    await client.query('commit')
  })

  test('the writes of a failing function are undone, and the transaction remains usable', async () => {
    const { one, other } = await two()
    const key = `${anchor} fails inside`
    const client = await beginTransaction()
    await effect(client, `${key} before`)
    const failing = one.inTransaction(client, key, async ({ tx }) => {
      await effect(tx, key)
      await tx.query('select no_such_column')
    })
    await expect(failing).rejects.toThrow('no_such_column')
    expect(await other.run(key, () => 'elsewhere')).toEqual({ status: 'done', value: 'elsewhere' })
    expect(await one.inTransaction(client, key, () => 'again')).toEqual({ status: 'replayed', value: 'elsewhere' })
    await client.query('commit')
    expect(await countEffects(fresh.url, `${key} before`)).toBe(1)
    expect(await countEffects(fresh.url, key)).toBe(0)
  })

  test('a failure is recorded with the transaction if failures is "record"', async () => {
    const { one, other } = await two()
    const key = `${anchor} records its failure`
    const client = await beginTransaction()
    const fail = async () => {
      throw new Error('no such invoice')
    }
    await caught(Error, one.inTransaction(client, key, { failures: 'record' }, fail))
    expect(await other.run(key, () => 1)).toEqual({ status: 'in-progress' })
    await client.query('commit')
    const error = await caught(
      RecordedFailureError,
      other.run(key, () => 1),
    )
    expect(error.failure).toEqual({ name: 'Error', message: 'no such invoice' })
  })

  test('another fingerprint is an error, and the transaction remains usable', async () => {
    const { one, other } = await two()
    const key = `${anchor} fingerprint`
    await other.run(key, { fingerprint: 'a' }, () => 1)
    const client = await beginTransaction()
    await caught(
      FingerprintMismatchError,
      one.inTransaction(client, key, { fingerprint: 'b' }, () => 2),
    )
    await client.query('commit')
  })
})

test('once.inTransaction accepts a transaction of postgres.js, which remains usable after a failure', async () => {
  const sql = postgres(fresh.url, { max: 3, onnotice: () => {} })
  onTestFinished(() => sql.end())
  const { once } = await open({ sql })
  const answer = await sql.begin(async (tx) => {
    const failing = once.inTransaction(tx, 'postgres.js', async ({ tx: inner }) => {
      await inner.query('select no_such_column')
    })
    await expect(failing).rejects.toThrow('no_such_column')
    return once.inTransaction(tx, 'postgres.js', async ({ tx: inner }) => (await effect(inner, 'postgres.js')).rows)
  })
  expect(answer).toEqual({ status: 'done', value: [{ name: 'postgres.js' }] })
  expect(await countEffects(fresh.url, 'postgres.js')).toBe(1)
  expect(await once.run('postgres.js', () => 2)).toMatchObject({ status: 'replayed' })
})

test.each(['repeatable read', 'serializable'])(
  'a %s transaction fails without an effect if its snapshot does not contain the other run',
  async (level) => {
    const { once } = await open({ url: fresh.url })
    const client = await sqlSession(fresh.url)
    await client.query(`begin isolation level ${level}`)
    await client.query('select count(*) from effect')
    await once.run(level, ({ tx }) => effect(tx, level).then(() => 'first'))
    const late = once.inTransaction(client, level, ({ tx }) => effect(tx, level).then(() => 'second'))
    await expect(late).rejects.toMatchObject({ sqlstate: '40001', retryable: true })
    await client.query('commit')
    expect(await countEffects(fresh.url, level)).toBe(1)
  },
)

test('a call does not wait for once.inTransaction on a client that is busy', async () => {
  const { once } = await open({ url: fresh.url })
  const client = await beginTransaction()
  const busy = client.query('select pg_sleep(20)')
  busy.catch(() => {})
  const inTransaction = once.inTransaction(client, 'busy client', () => 'in the transaction')
  const run = once.run('busy client', () => 'alone')
  expect(await within(5_000, 'The call', run)).toEqual({ status: 'done', value: 'alone' })
  await sql(fresh.url, 'select pg_cancel_backend($1)', [(client as unknown as { processID: number }).processID])
  await expect(busy).rejects.toThrow('canceling statement')
  await expect(inTransaction).rejects.toThrow()
})

test('once.inTransaction refuses a client without an open transaction, and writes nothing', async () => {
  const { once } = await open({ url: fresh.url })
  const client = await sqlSession(fresh.url)
  const error = await caught(
    UsageError,
    once.inTransaction(client, 'outside', () => 1),
  )
  expect(error.message).toContain('Expected an open transaction, got a client without an open transaction')
  expect(await deliveries(fresh.url, 'outside')).toEqual([])
})

test.each([undefined, null, {}, 'client'])('once.inTransaction refuses %j as a client', async (client) => {
  const { once } = await open({ url: fresh.url })
  const error = await caught(
    UsageError,
    once.inTransaction(client as never, 'key', () => 1),
  )
  expect(error.message).toContain('Expected an open transaction, got')
})

test('once.inTransaction refuses the option signal', async () => {
  const { once } = await open({ url: fresh.url })
  const options = { signal: new AbortController().signal } as never
  const error = await caught(
    UsageError,
    once.inTransaction(await beginTransaction(), 'key', options, () => 1),
  )
  expect(error.message).toContain('once.inTransaction has no option "signal"')
})

test('once.inTransaction needs no other connection of the pool than that of its caller', async () => {
  const pool = sqlPool({ connectionString: fresh.url, max: 1 })
  const { once } = await open({ pool })
  const client = await pool.connect()
  try {
    await client.query('begin')
    const answer = once.inTransaction(client, 'last connection', ({ tx }) =>
      effect(tx, 'last connection').then(() => 1),
    )
    expect(await within(5_000, 'the run', answer)).toEqual({ status: 'done', value: 1 })
    await client.query('commit')
  } finally {
    client.release()
  }
})
