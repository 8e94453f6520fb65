// Tests the sessions with which the dashboard reads: they have the settings of a reader, so each read is one statement, and a pooler's
// other clients never get these settings.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startPooler } from '../../faults/pooler.js'
import { DashboardContext } from '../../src/dashboard/dashboard-context.js'
import { redactWith } from '../../src/dashboard/redact.js'
import { withoutPgBouncer } from '../pooler/pgbouncer.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sqlPool } from '../setup/facts.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const settings = `
  select
    current_setting('jit') as jit, current_setting('search_path') as path,
    current_setting('transaction_read_only') as read_only, current_setting('statement_timeout') as timeout,
    now() = statement_timestamp() as is_alone, pg_backend_pid() as pid`

function openContext(given: ConstructorParameters<typeof DashboardContext>[0]) {
  const context = new DashboardContext(given, {
    schema: 'holdfast',
    redact: redactWith(undefined),
    traceUrl: undefined,
  })
  onTestFinished(() => context.close())
  return context.viewContext.executor
}

const ofReader = { jit: 'off', path: 'pg_catalog, pg_temp', read_only: 'on', timeout: '20s' }

test('a reader of the dashboard sends one statement, which cannot write', async () => {
  const executor = openContext({ url: database.url })
  const reads = [await executor.read(settings), await executor.read(settings)].flat()
  expect(reads).toMatchObject([
    { ...ofReader, is_alone: true },
    { ...ofReader, is_alone: true },
  ])
  expect(reads[0]!.pid).toBe(reads[1]!.pid)
  const write = executor.read("select nextval('holdfast.fence')")
  await expect(write).rejects.toMatchObject({ code: 'READ_ONLY' })
  // The other statements have other sessions.
  expect(await executor.query(settings)).toMatchObject([{ read_only: 'off', timeout: '0' }])
})

test('an error of one read leaves the session usable', async () => {
  const executor = openContext({ url: database.url })
  await expect(executor.read('select 1 / 0')).rejects.toMatchObject({ sqlstate: '22012' })
  expect(await executor.read(settings)).toMatchObject([{ ...ofReader, is_alone: true }])
})

test('a pool of the program keeps its settings', async () => {
  const pool = sqlPool({ connectionString: database.url, max: 1 })
  const executor = openContext({ pool })
  expect(await executor.read(settings)).toMatchObject([{ ...ofReader, is_alone: false }])
  expect((await pool.query(settings)).rows).toMatchObject([{ read_only: 'off', timeout: '0' }])
})

test.skipIf(withoutPgBouncer)('a pooler’s other clients keep their settings', async () => {
  const pooler = await startPooler(database.url, { mode: 'transaction', backends: 1 })
  const executor = openContext({ url: pooler.through(database.url) })
  expect(await executor.read(settings)).toMatchObject([{ ...ofReader, is_alone: false }])
  const other = sqlPool({ connectionString: pooler.through(database.url), max: 1 })
  expect((await other.query(settings)).rows).toMatchObject([{ read_only: 'off', timeout: '0' }])
})
