import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DatabaseUnreachableError, type Duration, Holdfast, OnceLostError } from '../../src/index.js'
import { countEffects, deliveries, effect, gate, makeEffects } from '../once/effects.js'
import { caught, sql, sqlPool, stays, until, within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { Child } from './children.js'
import { expiryMs, openDatabase, openInstance } from './fixture.js'

// Processes, sessions and responses that are lost during a run, and the consequences for the run's effect and key.

async function hold(url: string, details: { stage: string; anchor: string; expiryMs: number }) {
  const child = new Child<'reached' | { code: string }>('./once-holder.ts', { url, key: 'k', ...details })
  expect(await child.first('it has reached the stage')).toBe('reached')
  return child
}

async function accounts(url: string, key: string) {
  await sql(url, 'create table if not exists account (name text primary key, balance integer not null)')
  await sql(url, 'insert into account values ($1, 0)', [key])
}

const balance = async (url: string, key: string) =>
  (await sql<{ balance: number }>(url, 'select balance from account where name = $1', [key]))[0]!.balance

const book = (holdfast: Holdfast, key: string, wait: Duration) =>
  holdfast.once.run(key, { wait }, async ({ tx }) => {
    await tx.query('update account set balance = balance + 1 where name = $1', [key])
    return 'by the other'
  })

describe.each(waysOf(['none', 'required']))('anchor: %s', (anchor) => {
  test.each(['before', 'after'])(
    'a duplicate runs the key of a process that was killed %s its effect',
    async (stage) => {
      const { url } = await openDatabase()
      await accounts(url, 'k')
      const other = await openInstance(url)
      // With a session, the death is detected immediately. With a row, it is detected after the expiry.
      const child = await hold(url, { stage, anchor, expiryMs: anchor === 'required' ? 60_000 : expiryMs })
      expect(await book(other, 'k', '0s')).toEqual({ status: 'in-progress' })
      const waiting = book(other, 'k', '10s')
      child.kill()
      expect(await waiting).toEqual({ status: 'done', value: 'by the other' })
      expect(await balance(url, 'k')).toBe(1)
    },
  )

  test.each(['before', 'after'])(
    'a duplicate runs the key of a process that was frozen %s its effect after the expiry',
    {
      timeout: 60_000,
    },
    async (stage) => {
      const { url } = await openDatabase()
      await accounts(url, 'k')
      const other = await openInstance(url)
      const child = await hold(url, { stage, anchor, expiryMs })
      child.process.kill('SIGSTOP')
      // The frozen process may hold a row lock that the duplicate needs.
      const result = await within(15_000, 'The takeover', book(other, 'k', '12s'))
      expect(result).toEqual({ status: 'done', value: 'by the other' })
      child.process.kill('SIGCONT')
      child.send('continue')
      const end = await child.waitFor('the end of its run', (message) => message !== 'reached')
      expect(['ONCE_LOST', 'DATABASE_UNREACHABLE']).toContain((end as { code: string }).code)
      expect(await balance(url, 'k')).toBe(1)
      expect(await book(other, 'k', '0s')).toEqual({ status: 'replayed', value: 'by the other' })
    },
  )
})

test('a run whose session is ended is notified, and its result counts if no other run has taken over', async () => {
  const { url, witness } = await openDatabase()
  const one = await openInstance(url)
  let reason: unknown
  const running = one.once.run('k', async ({ signal }) => {
    await witness.terminate(await witness.anchorOf(one.id))
    await until('the run is notified', () => signal.aborted)
    reason = signal.reason
    return 1
  })
  expect(await running).toEqual({ status: 'done', value: 1 })
  expect(reason).toBeInstanceOf(OnceLostError)
  expect(reason).toMatchObject({ code: 'ONCE_LOST', retryable: true, key: 'k', fence: expect.any(Number) })
  expect((reason as Error).message).toMatch(/^The run of "k" was lost: The database cannot be reached/)
  expect(await one.once.run('k', () => 2)).toEqual({ status: 'replayed', value: 1 })
})

test('a run whose session is ended has no effect and no result if another run has taken over', async () => {
  const { url, witness } = await openDatabase()
  await makeEffects(url)
  const [one, other] = [await openInstance(url), await openInstance(url)]
  const [finish, started] = [gate(), gate()]
  const run = (key: string, usesTx: boolean) =>
    one.once.run(key, async ({ tx }) => {
      if (usesTx) await effect(tx, key)
      started.open()
      await finish.opened
      return 'late'
    })
  const late = [caught(OnceLostError, run('with tx', true)), caught(OnceLostError, run('without', false))]
  await started.opened
  await until('both keys are in flight', async () => (await sql(url, 'select from holdfast.delivery')).length === 2)
  await witness.terminate(await witness.anchorOf(one.id))
  for (const key of ['with tx', 'without']) {
    const answer = await other.once.run(key, { wait: '10s' }, ({ tx }) => effect(tx, key).then(() => 'taken over'))
    expect(answer).toEqual({ status: 'done', value: 'taken over' })
    // The lost run does not block the key in its own process either.
    expect(await one.once.run(key, { wait: '10s' }, () => 'again')).toMatchObject({ status: 'replayed' })
  }
  finish.open()
  for (const error of await Promise.all(late)) {
    // The run that takes over may end the session of the transaction, and the lost run may notice this first.
    expect(error.message).toMatch(
      /was lost: (another run has taken over|.* The session was ended by an administrator)$/,
    )
    expect(error.hint).toContain('rolled back')
  }
  expect(await countEffects(url, 'with tx')).toBe(1)
})

test('a run has no effect and its key is free if the session of its transaction is ended', async () => {
  const { url, witness } = await openDatabase()
  await makeEffects(url)
  const one = await openInstance(url)
  const running = one.once.run('k', async ({ tx }) => {
    const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
    await effect(tx, 'k')
    await witness.terminate(rows[0]!.pid)
    return 1
  })
  await caught(DatabaseUnreachableError, running)
  expect(await deliveries(url, 'k')).toEqual([])
  expect(await countEffects(url, 'k')).toBe(0)
})

test('a run that does not use its transaction for longer than the expiry keeps the transaction', async () => {
  const { url } = await openDatabase()
  await makeEffects(url)
  const one = await openInstance(url)
  const answer = await one.once.run('k', async ({ tx, signal }) => {
    await effect(tx, 'k')
    await stays('the signal is not aborted', () => !signal.aborted, expiryMs * 1.5)
    await tx.query('select pg_sleep($1)', [(expiryMs * 1.5) / 1_000])
    return 1
  })
  expect(answer).toEqual({ status: 'done', value: 1 })
  expect(await countEffects(url, 'k')).toBe(1)
})

type Reply = 'delivered' | 'lost' | 'never sent'

/** Opens an instance on a pool that can lose responses. `fate` decides for each statement. */
async function unreliablePool(url: string) {
  const fate = { of: (_text: string): Reply => 'delivered' }
  class UnreliableClient extends pg.Client {
    // biome-ignore lint/suspicious/noExplicitAny: all the forms of query
    override query(...args: any[]): any {
      const [first] = args
      const reply = fate.of(typeof first === 'string' ? first : first.text)
      if (reply === 'delivered') return (super.query as (...args: unknown[]) => unknown).apply(this, args)
      const callback = args.find((arg) => typeof arg === 'function')
      const given = args.filter((arg) => typeof arg !== 'function')
      const lose = () => {
        const error = new Error('Connection terminated unexpectedly')
        this.connection.stream.destroy()
        if (callback) callback(error)
        else throw error
      }
      if (reply === 'never sent') return Promise.resolve().then(lose)
      return (super.query as (...args: unknown[]) => Promise<unknown>).apply(this, given).then(lose)
    }
  }
  const pool = sqlPool({ connectionString: url, Client: UnreliableClient })
  pool.on('connect', (client) => client.on('error', () => {}))
  const holdfast = await Holdfast.open({ pool, expiry: expiryMs, log: false })
  onTestFinished(() => holdfast.close())
  return { holdfast, fate }
}

describe('lost responses', () => {
  test('a run returns its result if the response to its commit is lost', async () => {
    const { url } = await openDatabase()
    await makeEffects(url)
    const { holdfast, fate } = await unreliablePool(url)
    fate.of = (text) => (text === 'commit' ? 'lost' : 'delivered')
    const run = () => holdfast.once.run('k', ({ tx }) => effect(tx, 'k').then(() => 1))
    expect(await run()).toEqual({ status: 'done', value: 1 })
    expect(await run()).toEqual({ status: 'replayed', value: 1 })
    expect(await countEffects(url, 'k')).toBe(1)
  })

  test('a run throws and has no effect if its commit does not reach the server', async () => {
    const { url } = await openDatabase()
    await makeEffects(url)
    const { holdfast, fate } = await unreliablePool(url)
    fate.of = (text) => (text === 'commit' ? 'never sent' : 'delivered')
    const run = () => holdfast.once.run('k', ({ tx }) => effect(tx, 'k').then(() => 1))
    await caught(DatabaseUnreachableError, run())
    expect(await deliveries(url, 'k')).toEqual([])
    fate.of = () => 'delivered'
    expect(await run()).toEqual({ status: 'done', value: 1 })
    expect(await countEffects(url, 'k')).toBe(1)
  })

  test.each(waysOf(['lost', 'never sent']))(
    'a run whose commit is %s and whose server stays down has both an effect and a result, or neither',
    async (reply) => {
      const { url } = await openDatabase()
      await makeEffects(url)
      const { holdfast, fate } = await unreliablePool(url)
      const other = await openInstance(url)
      fate.of = (text) => {
        if (text !== 'commit') return 'delivered'
        fate.of = () => 'never sent'
        return reply
      }
      const run = () => holdfast.once.run('k', ({ tx }) => effect(tx, 'k').then(() => 1))
      const error = await caught(DatabaseUnreachableError, run())
      expect(error.message).toBe(
        'The connection was lost while "k" was committing: either both its effect and its result have been committed, or neither',
      )
      fate.of = () => 'delivered'
      const answer = await other.once.run('k', { wait: '10s' }, ({ tx }) => effect(tx, 'k').then(() => 2))
      expect(answer).toEqual(reply === 'lost' ? { status: 'replayed', value: 1 } : { status: 'done', value: 2 })
      expect(await countEffects(url, 'k')).toBe(1)
    },
  )

  test('a claim whose response is lost is returned, and a waiting call gets the key', async () => {
    const { url } = await openDatabase()
    const { holdfast, fate } = await unreliablePool(url)
    const other = await openInstance(url)
    const loseOneClaim = () => {
      fate.of = (text) => {
        if (!text.includes('claim_delivery')) return 'delivered'
        fate.of = () => 'delivered'
        return 'lost'
      }
    }
    loseOneClaim()
    await caught(
      DatabaseUnreachableError,
      holdfast.once.run('k', () => 1),
    )
    expect(await other.once.run('k', { wait: '10s' }, () => 2)).toEqual({ status: 'done', value: 2 })
    loseOneClaim()
    expect(await holdfast.once.run('k2', { wait: '10s' }, () => 3)).toEqual({ status: 'done', value: 3 })
  })

  test('a result without a transaction is sent again and recorded once if responses are lost', async () => {
    const { url } = await openDatabase()
    const { holdfast, fate } = await unreliablePool(url)
    let lost = 0
    fate.of = (text) => (text.includes('finish_delivery') && lost++ < 2 ? 'lost' : 'delivered')
    expect(await holdfast.once.run('k', () => 1)).toEqual({ status: 'done', value: 1 })
    expect(lost).toBe(3)
    expect(await holdfast.once.run('k', () => 2)).toEqual({ status: 'replayed', value: 1 })
  })

  test('a result is recorded even if the server is down for longer than the caller waits', async () => {
    const { url } = await openDatabase()
    const { holdfast, fate } = await unreliablePool(url)
    const other = await openInstance(url)
    fate.of = (text) => (text.includes('finish_delivery') ? 'never sent' : 'delivered')
    const error = await caught(
      DatabaseUnreachableError,
      holdfast.once.run('k', () => 1),
    )
    expect(error.message).toBe('The result for "k" could not be recorded yet. Retries continue in the background')
    fate.of = () => 'delivered'
    expect(await other.once.run('k', { wait: '10s' }, () => 2)).toEqual({ status: 'replayed', value: 1 })
  })
})
