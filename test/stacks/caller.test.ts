// What a transaction of the caller costs, and what does not compile in its place.
import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import type pg from 'pg'
import type postgres from 'postgres'
import { expect, test } from 'vitest'
import { type CallerTransaction, defineJob } from '../../src/index.js'
import { caught, sqlSession } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const job = defineJob('job', { run: (_: unknown) => {} })

/** The statements that a client is given, by their first words. */
function recorded(client: pg.Client): string[] {
  const statements: string[] = []
  const { query } = client
  client.query = ((...given: unknown[]) => {
    statements.push(String(given[0]).trim().split(/\s+/).slice(0, 2).join(' '))
    return (query as (...given: unknown[]) => unknown).apply(client, given)
  }) as typeof client.query
  return statements
}

test('a client of node-postgres knows of its transaction: enqueueing, locking and guarding are one statement each', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  await using lease = await holdfast.leases.acquire('lease')
  const client = await sqlSession(url)
  await client.query('begin')
  const statements = recorded(client)
  await holdfast.jobs.enqueue(job, 1, { tx: client })
  await holdfast.locks.inTransaction(client, 'lock', { wait: 0 })
  await lease.guard(client)
  expect(statements).toHaveLength(3)
})

test('a wrapper with nothing but query is asked once in each call whether its transaction is open', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const client = await sqlSession(url)
  await client.query('begin')
  const statements = recorded(client)
  const tx = { query: async (text: string, values?: unknown[]) => ({ rows: (await client.query(text, values)).rows }) }
  await holdfast.jobs.enqueueMany(job, new Array(12_000).fill(1), { tx })
  expect(statements.filter((statement) => statement === 'lock table')).toHaveLength(1)
  expect(statements.length).toBeGreaterThan(2)
  // A savepoint is refused outside of a transaction by itself.
  statements.length = 0
  await holdfast.once.inTransaction(tx, 'key', () => 1)
  expect(statements).not.toContain('lock table')
  await client.query('commit')
})

test('the tx of a job and of a delivery are known to be open: nobody asks', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const statements: string[] = []
  await holdfast.once.run('key', async ({ tx }) => {
    const query = tx.query.bind(tx)
    Object.assign(tx, {
      query: (text: string, values?: unknown[]) => {
        statements.push(text)
        return query(text, values)
      },
    })
    await holdfast.jobs.enqueue(job, 1, { tx })
    await holdfast.locks.inTransaction(tx, 'lock', { wait: 0 })
  })
  expect(statements).toHaveLength(2)
})

test('a begin that was not awaited counts, and so does a commit that was', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const client = await sqlSession(url)
  const begun = client.query('begin')
  const { id } = await holdfast.jobs.enqueue(job, 1, { tx: client })
  await begun
  await client.query('rollback')
  expect(await holdfast.jobs.find(id)).toBeNull()
  const error = await caught(Error, holdfast.jobs.enqueue(job, 1, { tx: client }))
  expect(error.message).toBe('Expected an open transaction, got a client without an open transaction')
})

test('a pool, and what is outside of a transaction, do not compile as a transaction', () => {
  const take = (_: CallerTransaction) => {}
  const nothing = {} as never
  take(nothing as pg.Client)
  take(nothing as pg.PoolClient)
  take(nothing as postgres.TransactionSql)
  take(nothing as postgres.ReservedSql)
  take(nothing as { query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> })
  take(nothing as Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0])
  // @ts-expect-error: each statement of a pool may run on another connection
  take(nothing as pg.Pool)
  // @ts-expect-error: the sql outside of a transaction
  take(nothing as postgres.Sql)
  // @ts-expect-error: the db outside of a transaction
  take(nothing as NodePgDatabase)
  // @ts-expect-error: the client of Prisma, outside of a transaction
  take(nothing as { $connect(): Promise<void>; $queryRawUnsafe<T>(text: string, ...values: unknown[]): Promise<T> })
})
