// Tests jobs in a database whose default isolation level is above READ COMMITTED. There, a transaction would not show
// that its job was taken over in the meantime.
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import {
  type CallerTransaction,
  defineJob,
  type HoldfastOptions,
  IsolationLevelError,
  JobFailedError,
  JobLostError,
} from '../../src/index.js'
import { freshDatabase } from '../setup/database.js'
import { caught, gate, sql, sqlPool, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { work } from './fixture.js'

let url: string
beforeAll(async () => {
  const fresh = await freshDatabase()
  url = fresh.url
  const database = new URL(url).pathname.slice(1)
  await sql(url, `alter database "${database}" set default_transaction_isolation to 'repeatable read'`)
  await sql(url, 'create table public.effect (what text)')
  return () => fresh.drop()
})

const start = (namespace: string, options: Partial<HoldfastOptions> = {}) => open({ url, namespace, ...options })

/** Opens the handlers' transactions at the default isolation level of the database. */
function inTransactions() {
  const pool = sqlPool({ connectionString: url, max: 2 })
  return async <T>(run: (tx: CallerTransaction) => Promise<T>) => {
    const client = await pool.connect()
    try {
      await client.query('begin')
      const result = await run(client)
      await client.query('commit')
      return result
    } catch (error) {
      await client.query('rollback')
      throw error
    } finally {
      client.release()
    }
  }
}

test('a step is not recorded if its attempt has ended after the transaction of the step began', async () => {
  const holdfast = await start('late step')
  const [begun, opening] = [gate(), gate()]
  const outcomes: unknown[] = []
  const definition = defineJob('slow', {
    run: async (isSlow: boolean, job) => {
      if (!isSlow || outcomes.length > 0) return
      const late = job.step('late', async ({ tx }) => {
        await tx.query("insert into public.effect values ('late step')")
        begun.open()
        await opening.opened
      })
      outcomes.push(await caught(JobLostError, late))
    },
  })
  const { id } = await holdfast.jobs.enqueue(definition, true)
  work(holdfast, [definition], { concurrency: 1 })
  await begun.opened
  // The claim has another job, so the end of this job does not change the row of the claim.
  await sql(url, 'update holdfast.claim set ids = ids || -1::bigint where $1 = any(ids)', [id])
  await sql(
    url,
    `begin isolation level read committed;
     select holdfast.job_end(json_build_array(json_build_object('id', ${id}, 'fence', fence, 'state', 'returned')), '{}')
     from holdfast.claim where ${id} = any(ids);
     commit`,
  )
  opening.open()
  await until('the step has failed', () => outcomes.length > 0)
  expect(outcomes).toEqual([expect.any(JobLostError)])
  expect(await sql(url, "select from public.effect where what = 'late step'")).toEqual([])
  await holdfast.jobs.result(id)
})

test("the handler's transaction runs at the READ COMMITTED isolation level if Holdfast opens it", async () => {
  const holdfast = await start('own')
  const definition = defineJob('own', {
    run: async (_: null, { tx, step }) => {
      const level = async (of: typeof tx) => (await of.query('show transaction_isolation')).rows
      return [await level(tx), await step('level', (job) => level(job.tx))]
    },
  })
  work(holdfast, [definition])
  const { id } = await holdfast.jobs.enqueue(definition, null)
  const expected = [{ transaction_isolation: 'read committed' }]
  expect(await holdfast.jobs.result(id)).toEqual([expected, expected])
})

test('a step or a job whose transaction has a higher isolation level fails with an IsolationLevelError', async () => {
  const holdfast = await start('given', { transaction: inTransactions() as never })
  const errors: unknown[] = []
  const definition = defineJob('given', {
    retry: { attempts: 1 },
    run: async (_: null, job) => {
      const insert = (tx: CallerTransaction) =>
        (tx as pg.PoolClient).query("insert into public.effect values ('given')")
      errors.push(
        await caught(
          IsolationLevelError,
          job.step('step', async ({ tx }) => insert(await tx).then(() => {})),
        ),
      )
      await insert(await job.tx)
    },
  })
  work(holdfast, [definition])
  const { id } = await holdfast.jobs.enqueue(definition, null)
  await caught(JobFailedError, holdfast.jobs.result(id))
  expect(errors).toMatchObject([{ hint: expect.stringContaining('READ COMMITTED'), retryable: false }])
  expect((await holdfast.jobs.find(id))!.error).toMatchObject({ code: 'ISOLATION_LEVEL' })
  expect(await sql(url, "select from public.effect where what = 'given'")).toEqual([])
})
