// Tests that every available PostgreSQL can prepare every statement of every .sql file.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Logger, runMigrations } from 'graphile-worker'
import pg from 'pg'
import { getConstructionPlans } from 'pg-boss'
import { expect, inject, test } from 'vitest'
import { startEmbedded } from '../../src/embedded/index.js'
import { loadStatements, migrate, openPgPool } from '../../src/postgres/index.js'
import { databaseUrl } from '../setup/instances.js'

const source = fileURLToPath(new URL('../../src/', import.meta.url))
const debian15 = '/usr/lib/postgresql/15/bin'

const statements = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.sql') && !file.includes('migrations'))
  .flatMap((file) =>
    Object.values(loadStatements<string>(pathToFileURL(source + file), 'holdfast')).map(({ name, text }) => ({
      label: `${file} ${name}`,
      text,
    })),
  )

/**
 * Tables of the company in the demo, which the migrations do not create. The tables of other job libraries are created below.
 */
const { text: tables } = statements.find(({ label }) => label === 'demo/company/company.sql tables')!

/** Only these statements can be prepared. PostgreSQL parses a utility statement when the statement runs. */
const preparable = /^(select|insert|update|delete|with|merge|values)\b/

/** Returns the errors of the server for statements that it cannot prepare. */
async function prepareErrors(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const found: string[] = []
    await client.query(getConstructionPlans('pgboss'))
    await runMigrations({ connectionString: url, logger: new Logger(() => () => {}) })
    await client.query(`create schema company; set search_path to company; ${tables}`)
    for (const { label, text } of statements.filter(({ text }) => preparable.test(text))) {
      await client.query(`prepare anything as ${text}`).then(
        () => client.query('deallocate anything'),
        (error) => found.push(`${label}: ${error.message}`),
      )
    }
    await client
      .query('prepare wrong as select no_such_column from holdfast.name')
      .catch(() => found.push('it can fail'))
    return found
  } finally {
    await client.end()
  }
}

test('there are more than 20 statements, and each starts with a lower-case word', () => {
  expect(statements.length).toBeGreaterThan(20)
  for (const { label, text } of statements) expect(text, label).toMatch(/^[a-z]/)
})

test('no statement casts a parameter to json, because drivers encode JSON differently', () => {
  for (const { label, text } of statements) expect(text, label).not.toMatch(/\$\d+::json/)
})

test('each statement name is used once per file', () => {
  for (const file of readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.sql'),
  )) {
    const names = [...readFileSync(source + file, 'utf8').matchAll(/^-- name: (\w+)$/gm)].map(([, name]) => name)
    expect(names, file).toEqual([...new Set(names)])
  }
})

test('the server of this run prepares every statement', async () => {
  expect(inject('adminUrl')).toBeTruthy()
  expect(await prepareErrors(await databaseUrl())).toEqual(['it can fail'])
})

test.skipIf(!existsSync(debian15))('PostgreSQL 15 prepares every statement', async () => {
  await using server = await startEmbedded({ binDir: debian15, settings: { fsync: 'off' } })
  const database = openPgPool({ connectionString: server.url })
  await migrate(database, 'holdfast').finally(() => database.close())
  expect(await prepareErrors(server.url)).toEqual(['it can fail'])
})
