// habits.test.ts checks that the output of bench fits its schema.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql } from '../setup/facts.js'
import { eventually, run, start } from './program.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

async function schemaExists(): Promise<boolean> {
  const [row] = await sql(database.url, "select to_regclass('holdfast_bench.migration') is not null as it")
  return row!.it as boolean
}

test('only one benchmark runs at a time, and an interrupted benchmark drops its schema', {
  timeout: 120_000,
}, async () => {
  const env = { DATABASE_URL: database.url }
  const first = start(['bench', '--seconds', '60'], env)
  await eventually(schemaExists).toBe(true)
  expect(await run(['bench'], env)).toEqual({
    status: 3,
    stdout: '',
    stderr: 'Another benchmark is already running on this database.\n',
  })
  first.process.kill('SIGINT')
  expect(await first.ended).toEqual({ status: 130, stdout: '', stderr: '' })
  expect(await schemaExists()).toBe(false)
})

test('bench shows its plan and asks for confirmation before it measures a remote server', async () => {
  const { status, stdout, stderr } = await run(['bench', '--url', 'postgres://app:s3cret@db.example.com/shop'])
  expect(stderr).toContain('The benchmark will measure app@db.example.com:5432/shop, which is not on this machine')
  expect(stderr).toContain('the schema holdfast_bench.\nThe benchmark drops this schema before it exits')
  expect(stderr).toContain('Nothing was done')
  expect(stderr).not.toContain('s3cret')
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
})
