// Tests the number of statements in a transaction of the caller, and the types that are refused as a transaction.
import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import type pg from 'pg'
import type postgres from 'postgres'
import { expect, test } from 'vitest'
import { type CallerTransaction, defineJob } from '../../src/index.js'
import { caught, sqlSession } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const job = defineJob('job', { run: (_: unknown) => {} })

/** Records the first two words of each statement that a client runs. */
function recordStatements(client: pg.Client): string[] {
  const statements: string[] = []
  const { query } = client
  client.query = ((...given: unknown[]) => {
    statements.push(String(given[0]).trim().split(/\s+/).slice(0, 2).join(' '))
    return (query as (...given: unknown[]) => unknown).apply(client, given)
  }) as typeof client.query
  return statements
}

test('enqueue, inTransaction and guard run one statement each on a client of node-postgres', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  await using lease = await holdfast.leases.acquire('lease')
  const client = await sqlSession(url)
  await client.query('begin')
  const statements = recordStatements(client)
  await holdfast.jobs.enqueue(job, 1, { tx: client })
  await holdfast.locks.inTransaction(client, 'lock', { wait: 0 })
  await lease.guard(client)
  expect(statements).toHaveLength(3)
})

test('a call with an object that has only query checks once whether its transaction is open', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const client = await sqlSession(url)
  await client.query('begin')
  const statements = recordStatements(client)
  const tx = { query: async (text: string, values?: unknown[]) => ({ rows: (await client.query(text, values)).rows }) }
  await holdfast.jobs.enqueueMany(job, new Array(12_000).fill(1), { tx })
  expect(statements.filter((statement) => statement === 'lock table')).toHaveLength(1)
  expect(statements.length).toBeGreaterThan(2)
  // PostgreSQL refuses a savepoint outside a transaction, so this call needs no check.
  statements.length = 0
  await holdfast.once.inTransaction(tx, 'key', () => 1)
  expect(statements).not.toContain('lock table')
  await client.query('commit')
})

test('a call with the tx of once.run does not check whether its transaction is open', async () => {
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

test('a begin that is not awaited opens the transaction, and a rollback closes it', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const client = await sqlSession(url)
  const beginning = client.query('begin')
  const { id } = await holdfast.jobs.enqueue(job, 1, { tx: client })
  await beginning
  await client.query('rollback')
  expect(await holdfast.jobs.find(id)).toBeNull()
  const error = await caught(Error, holdfast.jobs.enqueue(job, 1, { tx: client }))
  expect(error.message).toBe('Expected an open transaction, got a client without an open transaction')
})

test('a pool and the objects of libraries outside a transaction do not have the type CallerTransaction', () => {
  const take = (_: CallerTransaction) => {}
  const nothing = {} as never
  take(nothing as pg.Client)
  take(nothing as pg.PoolClient)
  take(nothing as postgres.TransactionSql)
  take(nothing as postgres.ReservedSql)
  take(nothing as { query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> })
  take(nothing as Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0])
  // @ts-expect-error: each statement of a pool can run on another connection
  take(nothing as pg.Pool)
  // @ts-expect-error: the sql object outside a transaction
  take(nothing as postgres.Sql)
  // @ts-expect-error: the db object outside a transaction
  take(nothing as NodePgDatabase)
  // @ts-expect-error: the Prisma client outside a transaction
  take(nothing as { $connect(): Promise<void>; $queryRawUnsafe<T>(text: string, ...values: unknown[]): Promise<T> })
})
