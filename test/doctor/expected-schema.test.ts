// The doctor derives the expected schema from the text of the migrations. These tests compare the expected schema with the
// catalog of a database that the migrations have made.
import { beforeAll, expect, test } from 'vitest'
import { expectedSchema } from '../../src/doctor/expected-schema.js'
import { latestVersion, migrate, openPgPool } from '../../src/postgres/index.js'
import { freshDatabase } from '../setup/database.js'
import { sql } from '../setup/facts.js'

const schema = 'Some "schema"'
const quoted = '"Some ""schema"""'
const expected = expectedSchema(schema, latestVersion(schema))
let rows: { kind: string; of: string | null; name: string; detail: string | null }[]

beforeAll(async () => {
  const fresh = await freshDatabase()
  const database = openPgPool({ connectionString: fresh.url })
  try {
    await migrate(database, schema)
    rows = await sql(
      fresh.url,
      `with own as (
         select * from pg_class
         where relnamespace = to_regnamespace('${quoted}') and not relispartition and relname not in ('migration', 'applied_functions')
       )
       select 'table' as kind, null as of, relname as name, array_to_string(reloptions, ',') as detail
       from own where relkind in ('r', 'p')
       union all
       select 'column', relname, attname, null
       from own join pg_attribute on attrelid = own.oid
       where relkind in ('r', 'p') and attnum > 0 and not attisdropped
       union all
       select 'index', t.relname, i.relname, pg_get_indexdef(i.oid)
       from pg_index join own t on t.oid = indrelid join pg_class i on i.oid = indexrelid
       where not indisprimary and not exists (select from pg_constraint where conindid = i.oid)
       union all
       select 'function', null, proname, prosrc
       from pg_proc where pronamespace = to_regnamespace('${quoted}') and proname <> 'session_class'
       union all
       select case relkind when 'v' then 'view' else 'sequence' end, null, relname, null from own where relkind in ('S', 'v')`,
    )
  } finally {
    await database.close()
    await fresh.drop()
  }
})

const catalog = (kind: string) => rows.filter((row) => row.kind === kind)
const pairs = (map: ReadonlyMap<string, string>) => [...map].map((pair) => pair.join('=')).sort()

test('the expected tables and their storage settings match the catalog', () => {
  // Each default partition is created by a statement of its own.
  const tables = [...expected.tables].filter(([name]) => !/^job(_end|_stopped)?_default$/.test(name))
  expect(new Map(tables.map(([name, { options }]) => [name, pairs(options)]))).toEqual(
    new Map(catalog('table').map(({ name, detail }) => [name, detail ? detail.split(',').sort() : []])),
  )
})

test('the expected columns match the catalog', () => {
  const columns = [...expected.tables].flatMap(([table, { columns }]) =>
    [...columns.keys()].map((column) => `${table}.${column}`),
  )
  expect(columns.sort()).toEqual(
    catalog('column')
      .map(({ of, name }) => `${of}.${name}`)
      .sort(),
  )
})

test('the expected indexes, sequences, views and function bodies match the catalog', () => {
  const indexes = [...expected.indexes].map(([name, { table }]) => `${table}.${name}`)
  expect(indexes.sort()).toEqual(
    catalog('index')
      .map(({ of, name }) => `${of}.${name}`)
      .sort(),
  )
  expect([...expected.sequences.keys()].sort()).toEqual(
    catalog('sequence')
      .map(({ name }) => name)
      .sort(),
  )
  const functions = [...expected.functions].filter(([, { body }]) => body !== undefined)
  expect(new Map(functions.map(([name, { body }]) => [name, body]))).toEqual(
    new Map(catalog('function').map(({ name, detail }) => [name, detail])),
  )
  const views = [...expected.functions].filter(([, { body }]) => body === undefined)
  expect(views.map(([name]) => name).sort()).toEqual(
    catalog('view')
      .map(({ name }) => name)
      .sort(),
  )
  expect(expected.functions.size).toBeGreaterThan(50)
})

test('an older version of the schema has fewer tables', async () => {
  expect([...expectedSchema(schema, 0).tables.keys()]).toEqual([])
  expect([...expectedSchema(schema, 1).tables.keys()]).toContain('lease')
})
