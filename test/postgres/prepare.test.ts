// Every statement of every .sql file is understood by every PostgreSQL that is at hand.
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

/** What statements read that is not made by migrations: the tables of the company in the demo, and of those whose jobs are imported. */
const { text: tables } = statements.find(({ label }) => label === 'demo/company/company.sql tables')!

/** Only these can be prepared; a utility statement is parsed when it is run. */
const preparable = /^(select|insert|update|delete|with|merge|values)\b/

/** What the server says against the statements; nothing when all is well. */
async function complaints(url: string): Promise<string[]> {
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

test('there are statements, each a sentence of lower case', () => {
  expect(statements.length).toBeGreaterThan(20)
  for (const { label, text } of statements) expect(text, label).toMatch(/^[a-z]/)
})

test('JSON goes in as text, which all drivers understand alike', () => {
  for (const { label, text } of statements) expect(text, label).not.toMatch(/\$\d+::json/)
})

test('every name is used once in its file', () => {
  for (const file of readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.sql'),
  )) {
    const names = [...readFileSync(source + file, 'utf8').matchAll(/^-- name: (\w+)$/gm)].map(([, name]) => name)
    expect(names, file).toEqual([...new Set(names)])
  }
})

test('the server of this run prepares them all', async () => {
  expect(inject('adminUrl')).toBeTruthy()
  expect(await complaints(await databaseUrl())).toEqual(['it can fail'])
})

test.skipIf(!existsSync(debian15))('PostgreSQL 15 prepares them all', async () => {
  await using server = await startEmbedded({ binDir: debian15, settings: { fsync: 'off' } })
  const database = openPgPool({ connectionString: server.url })
  await migrate(database, 'holdfast').finally(() => database.close())
  expect(await complaints(server.url)).toEqual(['it can fail'])
})
