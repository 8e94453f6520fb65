import type pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  type CallerTransaction,
  defineJob,
  Holdfast,
  type HoldfastOptions,
  OnceLostError,
  type OpenTransaction,
  UsageError,
} from '../../src/index.js'
import { executorOf } from '../../src/postgres/index.js'
import { giveClaimAway, untilState, work } from '../jobs/fixture.js'
import { add, untilMember, untilRuns } from '../schedules/fixture.js'
import { caught, sql, sqlSession, stays } from '../setup/facts.js'
import { databaseUrl, emptyDatabaseUrl, open } from '../setup/instances.js'
import { waysOf } from '../setup/variants.js'
import { effectTable, libraries } from './libraries.js'

// Tests the same contract with the transactions of every library that the `transaction` option can open: the effect of a handler and the
// record of its end are committed together.

const retry = { attempts: 3, backoff: 1, maxBackoff: 1 }

/** The other handlers may still be running. */
const makeLate = `update holdfast.tick set fence = fence + 1
  where schedule = (select key from holdfast.schedule where name = 'late') and state = 'running'`

describe.each(Object.entries(libraries))('handlers with %s', (name, openLibrary) => {
  /** For behaviour that does not depend on the library. */
  const testOneWay = test.runIf(waysOf(Object.keys(libraries)).includes(name))

  async function createFixture(options: Partial<HoldfastOptions> = {}) {
    const url = await databaseUrl()
    await sql(url, effectTable)
    const library = await openLibrary(url)
    onTestFinished(async () => void (await library.close()))
    const holdfast: Holdfast = await open({ url, transaction: library.transaction as never, ...options })
    const insert = async (tx: unknown, name: string) => library.insert(await tx, name)
    const effects = async () =>
      (await sql<{ name: string }>(url, 'select name from effect order by id')).map(({ name }) => name)
    /** Makes the commit fail: PostgreSQL checks the constraint only then. */
    const failAtCommit = async (tx: unknown) => {
      const executor = executorOf((await tx) as CallerTransaction)
      for (const _ of [1, 2]) await executor.query("insert into effect (name, once) values ('twice', 'twice')")
    }
    return { url, holdfast, insert, effects, failAtCommit }
  }

  test('the effect and the result of a job commit together', async () => {
    const { holdfast, insert, effects } = await createFixture()
    const child = defineJob('child', { run: (input: string) => input })
    let before: unknown
    const job = defineJob('job', {
      run: async (name: string, { tx, enqueue }) => {
        await insert(tx, name)
        await enqueue(child, 'by the handler')
        await holdfast.jobs.enqueue(child, 'with tx', { tx: await tx })
        before = await effects()
        return { name }
      },
    })
    work(holdfast, [job, child])
    const { id } = await holdfast.jobs.enqueue(job, 'a')
    expect(await holdfast.jobs.result(id)).toEqual({ name: 'a' })
    expect(before).toEqual([])
    expect(await effects()).toEqual(['a'])
    await untilState(holdfast, id + 1, 'done')
    await untilState(holdfast, id + 2, 'done')
  })

  testOneWay(
    'a job that throws, fails at its commit or ends its transaction has no effect and runs again',
    async () => {
      const { holdfast, insert, effects, failAtCommit } = await createFixture()
      const job = defineJob('job', {
        retry: { ...retry, attempts: 5 },
        run: async (_: null, { tx, attempt }) => {
          await insert(tx, `attempt ${attempt}`)
          if (attempt === 1) throw new Error('undo')
          if (attempt === 2) await failAtCommit(tx)
          if (attempt === 3) await executorOf(await tx).query('rollback')
        },
      })
      work(holdfast, [job])
      const { id } = await holdfast.jobs.enqueue(job, null)
      await holdfast.jobs.result(id)
      expect(await effects()).toEqual(['attempt 4'])
      const { failures } = (await holdfast.jobs.find(id))!
      expect(failures.map(({ message }) => message)).toEqual([
        'undo',
        // The message of the library for the violated constraint.
        expect.any(String),
        expect.stringContaining('the handler has ended it'),
      ])
    },
  )

  test('an attempt whose job was taken over has no effect', async () => {
    const { url, holdfast, insert, effects } = await createFixture()
    const lost = new Promise((resolve) => holdfast.on('job.ended', ({ state }) => resolve(state)))
    const job = defineJob('job', {
      run: async (_: null, { id, tx }) => {
        await insert(tx, 'late')
        await giveClaimAway(url, id)
      },
    })
    work(holdfast, [job])
    const { id } = await holdfast.jobs.enqueue(job, null)
    expect(await lost).toBe('lost')
    expect(await effects()).toEqual([])
    expect((await holdfast.jobs.find(id))!.state).not.toBe('done')
  })

  test('the effect of a schedule run commits with the end of the run, or not at all', async () => {
    const { url, holdfast, insert, effects, failAtCommit } = await createFixture()
    const handlers: Record<string, (tx: unknown) => Promise<unknown>> = {
      done: (tx) => insert(tx, 'done'),
      throws: (tx) => insert(tx, 'throws').then(() => Promise.reject(new Error('undo'))),
      commit: (tx) => insert(tx, 'commit').then(() => failAtCommit(tx)),
      late: (tx) => insert(tx, 'late').then(() => sql(url, makeLate)),
    }
    const lost = new Promise((resolve) =>
      holdfast.on('schedule.ended', ({ name, state }) => name === 'late' && resolve(state)),
    )
    for (const [name, run] of Object.entries(handlers)) {
      add(holdfast, name, { every: '1d' }, ({ tx }) => run(tx))
      await untilMember(holdfast, name)
      await holdfast.schedules.run(name)
    }
    await untilRuns(holdfast, 'done', ['done'])
    await untilRuns(holdfast, 'throws', ['failed'])
    await untilRuns(holdfast, 'commit', ['failed'])
    expect(await lost).toBe('lost')
    expect(await effects()).toEqual(['done'])
  })

  testOneWay('a schedule enqueues the job of its tick', async () => {
    const { holdfast } = await createFixture()
    const job = defineJob('job', { run: (input: string) => input })
    onTestFinished(() => schedule.close({ within: 100 }))
    const schedule = holdfast.schedules.add('tick', { every: '1d', job, input: () => 'from the tick' })
    await untilMember(holdfast, 'tick')
    await holdfast.schedules.run('tick')
    await untilRuns(holdfast, 'tick', ['done'])
    work(holdfast, [job])
    expect(await holdfast.jobs.result(1)).toBe('from the tick')
  })

  testOneWay('the effect of once.run commits with the answer, or not at all', async () => {
    const { url, holdfast, insert, effects, failAtCommit } = await createFixture()
    const once = (key: string, then: (tx: unknown) => unknown = () => {}) =>
      holdfast.once.run(key, async ({ tx }) => {
        await insert(tx, key)
        await then(tx)
        return key
      })
    expect(await once('done')).toEqual({ status: 'done', value: 'done' })
    expect(await once('done')).toEqual({ status: 'replayed', value: 'done' })
    await expect(once('throws', () => Promise.reject(new Error('undo')))).rejects.toThrow('undo')
    await expect(once('commit', failAtCommit)).rejects.toThrow()
    await caught(
      OnceLostError,
      once('late', () => sql(url, "update holdfast.delivery set token = 'other' where key = 'late'")),
    )
    expect(await effects()).toEqual(['done'])
    expect(await once('throws')).toEqual({ status: 'done', value: 'throws' })
    expect(await once('commit')).toEqual({ status: 'done', value: 'commit' })
    expect(await effects()).toEqual(['done', 'throws', 'commit'])
  })

  testOneWay('a commit whose response is lost counts once', async () => {
    const url = await databaseUrl()
    await sql(url, effectTable)
    const library = await openLibrary(url)
    onTestFinished(async () => void (await library.close()))
    const transaction = async (run: (tx: CallerTransaction) => Promise<void>) => {
      await library.transaction(run)
      throw new Error('Connection terminated unexpectedly')
    }
    const holdfast = await open({ url, transaction: transaction as never })
    const insert = async (tx: unknown, name: string) => void (await library.insert(await tx, name))
    const job = defineJob('job', { retry, run: (_: null, { tx }) => insert(tx, 'job') })
    work(holdfast, [job])
    add(holdfast, 'schedule', { every: '1d' }, ({ tx }) => insert(tx, 'schedule'))
    await untilMember(holdfast, 'schedule')
    const { id } = await holdfast.jobs.enqueue(job, null)
    await untilState(holdfast, id, 'done')
    await holdfast.schedules.run('schedule')
    await untilRuns(holdfast, 'schedule', ['done'])
    expect(await holdfast.once.run('once', ({ tx }) => insert(tx, 'once').then(() => 1))).toEqual({
      status: 'done',
      value: 1,
    })
    const effects = await sql<{ name: string }>(url, 'select name from effect order by name')
    expect(effects.map(({ name }) => name)).toEqual(['job', 'once', 'schedule'])
  })

  testOneWay(
    'a handler that does not use its transaction for longer than the expiry keeps the transaction',
    async () => {
      const { holdfast, insert, effects } = await createFixture({ expiry: '2s', anchor: 'none' })
      const answer = await holdfast.once.run('idle', async ({ tx, signal }) => {
        await insert(tx, 'before')
        await stays('the signal is not aborted', () => !signal.aborted, 3_000)
        await insert(tx, 'after')
        return 1
      })
      expect(answer).toEqual({ status: 'done', value: 1 })
      expect(await effects()).toEqual(['before', 'after'])
    },
  )

  testOneWay('the work of once.inTransaction receives the transaction of the caller', async () => {
    const { holdfast, insert, effects } = await createFixture()
    await holdfast.once.run('outer', async ({ tx: outer }) => {
      const answer = await holdfast.once.inTransaction(await outer, 'inner', ({ tx }) =>
        insert(tx, 'inner').then(() => 1),
      )
      expect(answer).toEqual({ status: 'done', value: 1 })
      expect(await effects()).toEqual([])
    })
    expect(await effects()).toEqual(['inner'])
  })
})

const refusals: Record<string, (url: string) => Promise<OpenTransaction<never>>> = {
  async 'ended without calling its argument'() {
    return async () => {}
  },
  async 'called its argument twice'(url) {
    const client = await sqlSession(url)
    return async (run) => {
      await client.query('begin')
      await run(client as never)
      await client.query('rollback')
      await run(client as never)
    }
  },
  async 'an open transaction, got a client without an open transaction'(url) {
    const client = await sqlSession(url)
    return (run) => run(client as never)
  },
  async 'in another database'() {
    const library = await libraries['node-postgres']!(await databaseUrl())
    onTestFinished(async () => void (await library.close()))
    return library.transaction as never
  },
  async 'in another database '() {
    const library = await libraries['node-postgres']!(await emptyDatabaseUrl())
    onTestFinished(async () => void (await library.close()))
    return library.transaction as never
  },
}

test.each(Object.entries(refusals))('a handler gets a UsageError for an option that %s', async (message, optionOf) => {
  const url = await databaseUrl()
  await sql(url, effectTable)
  const holdfast = await open({ url, transaction: (await optionOf(url)) as never })
  const run = holdfast.once.run('key', async ({ tx }) => {
    const client = (await tx) as unknown as pg.PoolClient
    await client.query("insert into effect (name) values ('a')")
  })
  expect((await caught(UsageError, run)).message).toContain(message.trim())
  expect(await sql(url, 'select from effect')).toEqual([])
  expect(await sql(url, 'select from holdfast.delivery')).toEqual([])
})

test('an option that is no function is refused', async () => {
  const error = await caught(UsageError, Holdfast.open({ url: 'postgres://localhost/x', transaction: {} as never }))
  expect(error.message).toMatch(/^Expected transaction to be a function, got /)
})

test('a handler that does not read tx opens no transaction', async () => {
  let opened = 0
  const holdfast = await open({ url: await databaseUrl(), transaction: (async () => void opened++) as never })
  const job = defineJob('job', { run: (_: null, { id }) => id })
  work(holdfast, [job])
  const { id } = await holdfast.jobs.enqueue(job, null)
  expect(await holdfast.jobs.result(id)).toBe(id)
  expect(await holdfast.once.run('key', ({ key }) => key)).toEqual({ status: 'done', value: 'key' })
  expect(opened).toBe(0)
})
