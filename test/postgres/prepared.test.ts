import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { databaseUrl, open } from '../setup/instances.js'

const job = defineJob('job', { run: () => {} })

async function poolOf(url: string): Promise<{ pool: pg.Pool; prepared: () => Promise<string[]> }> {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  onTestFinished(() => pool.end())
  const prepared = async () =>
    (await pool.query('select name from pg_prepared_statements')).rows.map(({ name }) => name)
  return { pool, prepared }
}

test('a statement that is used often is prepared once per connection', async () => {
  const { pool, prepared } = await poolOf(await databaseUrl())
  const holdfast = await open({ pool })
  for (let n = 0; n < 3; n++) await holdfast.jobs.enqueue(job, null)
  expect(await prepared()).toEqual([expect.stringMatching(/^holdfast_enqueue_[0-9a-f]{8}$/)])
})

test('a pool whose prepared statements are dropped by other code still works', async () => {
  const { pool, prepared } = await poolOf(await databaseUrl())
  const holdfast = await open({ pool })
  const first = await holdfast.jobs.enqueue(job, null)
  await pool.query('discard all')
  const second = await holdfast.jobs.enqueue(job, null)
  expect(second.id).toBeGreaterThan(first.id)
  expect(await prepared()).toEqual([])
  expect((await pool.query('select from holdfast.job')).rowCount).toBe(2)
})

test('no statement is prepared if a pooler may be in between', async () => {
  const url = await databaseUrl()
  for (const options of [{ anchor: 'none' }, { directUrl: url }] as const) {
    const { pool, prepared } = await poolOf(url)
    const holdfast = await open({ pool, ...options })
    await holdfast.jobs.enqueue(job, null)
    expect(await prepared()).toEqual([])
  }
})
