import { afterAll, describe, expect, inject, test } from 'vitest'
import { type Pooler, startPooler } from '../../faults/pooler.ts'
import {
  type CallerTransaction,
  defineJob,
  type Holdfast,
  LockTimeoutError,
  StaleFenceError,
  UsageError,
} from '../../src/index.js'
import { executorOf, sqlstateOf } from '../../src/postgres/index.js'
import { withoutPgBouncer } from '../pooler/pgbouncer.js'
import { caught, sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { runsAll, waysOf } from '../setup/variants.js'
import { stacks } from './stacks.js'

// Tests the same contract with the transactions of every supported library: the writes of Holdfast belong to the transaction.

const sendEmail = defineJob('send-email', { run: (_: { to: string }) => {} })

/** One library for each way in which a transaction sends a statement. */
const drivers = ['node-postgres, a pool', 'postgres.js', 'Prisma']

const ways = withoutPgBouncer ? ['direct'] : ['through PgBouncer', 'direct']

/** All tests share one PgBouncer. Each test has its own database, so PgBouncer never shares a session between tests. */
let pooler: Promise<Pooler> | undefined
afterAll(async () => (await pooler)?.stop())

function throughPooler(url: string): Promise<string> {
  pooler ??= startPooler(inject('adminUrl'), { mode: 'transaction' })
  return pooler.then(({ through }) => through(url))
}

describe.each(waysOf(ways))('transactions %s', (way) => {
  describe.each(Object.entries(stacks))('%s', (library, openStack) => {
    /** For calls that send the same statements as another test, which runs with every library. */
    const testDrivers = test.runIf(runsAll || drivers.includes(library))

    async function createFixture() {
      const url = await databaseUrl()
      const holdfast: Holdfast = await open({ url })
      const pooled = way === 'direct' ? url : await throughPooler(url)
      const stack = await openStack(pooled)
      return {
        url,
        holdfast,
        stack,
        jobs: () => sql(url, "select payload->>'to' as name from holdfast.job_live order by id"),
      }
    }

    test('enqueued jobs commit and roll back with the transaction', async () => {
      const { holdfast, stack, jobs } = await createFixture()
      await stack.transaction(async (tx) => {
        await holdfast.jobs.enqueue(sendEmail, { to: 'a' }, { tx })
        await holdfast.jobs.enqueueMany(sendEmail, [{ to: 'b' }, { to: 'c' }], { tx })
        expect(await jobs()).toEqual([])
      })
      expect(await jobs()).toEqual([{ name: 'a' }, { name: 'b' }, { name: 'c' }])
      const undone = stack.transaction(async (tx) => {
        await holdfast.jobs.enqueue(sendEmail, { to: 'd' }, { tx, unique: 'd' })
        throw new Error('undo')
      })
      await expect(undone).rejects.toThrow('undo')
      expect(await jobs()).toHaveLength(3)
      await stack.close()
    })

    testDrivers(
      'locks are held until the transaction ends, and a wait that times out keeps the transaction usable',
      async () => {
        const { holdfast, stack, jobs } = await createFixture()
        await using other = await holdfast.locks.acquire('held')
        await stack.transaction(async (tx) => {
          const lock = await holdfast.locks.inTransaction(tx, ['one', 'two'], { wait: '1s' })
          expect(lock.fence).toBeGreaterThan(other.fence)
          expect(await holdfast.locks.tryAcquire('one')).toBeNull()
          expect(await holdfast.locks.tryInTransaction(tx, 'held')).toBeNull()
          await caught(LockTimeoutError, holdfast.locks.inTransaction(tx, 'held', { wait: 50 }))
          await holdfast.jobs.enqueue(sendEmail, { to: 'after it' }, { tx })
        })
        expect(await jobs()).toEqual([{ name: 'after it' }])
        await using _free = await holdfast.locks.acquire(['one', 'two'], { wait: '1s' })
        await stack.close()
      },
    )

    testDrivers('guard accepts the current fence and refuses a stale one', async () => {
      const { url, holdfast, stack } = await createFixture()
      await using lock = await holdfast.locks.acquire('report')
      await stack.transaction((tx) => lock.guard(tx))
      await using lease = await holdfast.leases.acquire('import')
      await stack.transaction((tx) => lease.guard(tx))
      // This simulates a write of a later holder.
      await sql(url, 'update holdfast.fence_guard set fence = fence + 1')
      const late = stack.transaction(async (tx) => {
        await holdfast.jobs.enqueue(sendEmail, { to: 'rolled back' }, { tx })
        await lock.guard(tx)
      })
      await caught(StaleFenceError, late)
      expect(await sql(url, 'select from holdfast.job_live')).toEqual([])
      await stack.close()
    })

    testDrivers('the result of once.inTransaction commits with the transaction', async () => {
      const { holdfast, stack } = await createFixture()
      const deliver = () => stack.transaction((tx) => holdfast.once.inTransaction(tx, 'event 1', () => ({ paid: 7 })))
      expect(await deliver()).toEqual({ status: 'done', value: { paid: 7 } })
      expect(await deliver()).toEqual({ status: 'replayed', value: { paid: 7 } })
      await stack.close()
    })

    test('every call outside a transaction is refused before anything is written', async () => {
      const { url, holdfast, stack, jobs } = await createFixture()
      await using lock = await holdfast.locks.acquire('held')
      await using lease = await holdfast.leases.acquire('leased')
      for (const [got, given] of Object.entries(stack.outside)) {
        const tx = given as CallerTransaction
        const calls: Record<string, () => Promise<unknown>> = {
          enqueue: () => holdfast.jobs.enqueue(sendEmail, { to: 'a' }, { tx }),
          'enqueue with a key': () => holdfast.jobs.enqueue(sendEmail, { to: 'a' }, { tx, unique: 'a' }),
          enqueueMany: () => holdfast.jobs.enqueueMany(sendEmail, [{ to: 'a' }, { to: 'b' }], { tx }),
          enqueueWorkflow: () => holdfast.jobs.enqueueWorkflow({ tx }, (flow) => void flow.add(sendEmail, { to: 'a' })),
          'locks.inTransaction': () => holdfast.locks.inTransaction(tx, 'one', { wait: '1s' }),
          'locks.tryInTransaction, one name': () => holdfast.locks.tryInTransaction(tx, 'one'),
          'locks.tryInTransaction, two names': () => holdfast.locks.tryInTransaction(tx, ['one', 'two']),
          'once.inTransaction': () => holdfast.once.inTransaction(tx, 'event', () => 1),
          'lock.guard': () => lock.guard(tx),
          'lease.guard': () => lease.guard(tx),
        }
        for (const [call, run] of Object.entries(calls)) {
          const error = await caught(UsageError, run())
          expect(error.message, call).toBe(`Expected an open transaction, got ${got}`)
          expect(error.hint, call).toMatch(/^Pass /)
        }
      }
      expect(await jobs()).toEqual([])
      expect(await sql(url, 'select from holdfast.fence_guard')).toEqual([])
      expect(await sql(url, 'select from holdfast.delivery')).toEqual([])
      await stack.close()
    })

    test('every call with a transaction that has ended is refused before anything is written', async () => {
      const { url, holdfast, stack, jobs } = await createFixture()
      await using lock = await holdfast.locks.acquire('held')
      let tx!: CallerTransaction
      await stack.transaction(async (given) => {
        tx = given
        await holdfast.jobs.enqueue(sendEmail, { to: 'in time' }, { tx })
      })
      const calls: Record<string, () => Promise<unknown>> = {
        enqueue: () => holdfast.jobs.enqueue(sendEmail, { to: 'late' }, { tx }),
        enqueueMany: () => holdfast.jobs.enqueueMany(sendEmail, [{ to: 'late' }, { to: 'late' }], { tx }),
        enqueueWorkflow: () =>
          holdfast.jobs.enqueueWorkflow({ tx }, (flow) => void flow.add(sendEmail, { to: 'late' })),
        'locks.inTransaction': () => holdfast.locks.inTransaction(tx, 'one', { wait: '1s' }),
        'locks.tryInTransaction': () => holdfast.locks.tryInTransaction(tx, 'one'),
        'once.inTransaction': () => holdfast.once.inTransaction(tx, 'event', () => 1),
        'lock.guard': () => lock.guard(tx),
      }
      for (const [call, run] of Object.entries(calls)) {
        const error = await caught(UsageError, run())
        expect(error.message, call).toContain('Expected an open transaction, got ')
      }
      expect(await jobs()).toEqual([{ name: 'in time' }])
      expect(await sql(url, 'select from holdfast.fence_guard')).toEqual([])
      expect(await sql(url, 'select from holdfast.delivery')).toEqual([])
      await stack.close()
    })

    testDrivers('a call in a failed transaction rejects with the error of PostgreSQL', async () => {
      const { holdfast, stack, jobs } = await createFixture()
      let refusal: unknown
      const undone = stack.transaction(async (tx) => {
        await executorOf(tx)
          .query('select no_such_column')
          .catch(() => {})
        refusal = await holdfast.jobs.enqueue(sendEmail, { to: 'a' }, { tx }).catch((error) => error)
        throw new Error('undo')
      })
      await expect(undone).rejects.toThrow()
      expect(sqlstateOf(refusal)).toBe('25P02')
      expect(await jobs()).toEqual([])
      await stack.close()
    })
  })
})
