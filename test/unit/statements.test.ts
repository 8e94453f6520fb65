import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { inSchema, loadStatements, quoteIdentifier } from '../../src/postgres/index.js'

const source = `-- What this file is about; mentions holdfast.lock.

-- name: first
-- What it is for.
select *
-- A comment in its middle.
from holdfast.name
where namespace = 'holdfast'

-- name: second
select holdfast.lock_key('a', 'holdfast.com');
`

function load(schema: string) {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-statements-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'some.sql')
  writeFileSync(file, source)
  return loadStatements<'first' | 'second'>(pathToFileURL(file), schema)
}

test('finds the statements by name, without comments and semicolon', () => {
  expect(load('holdfast')).toEqual({
    first: {
      name: 'first',
      text: "select *\nfrom holdfast.name\nwhere namespace = 'holdfast'",
      purpose: 'What it is for.',
    },
    second: { name: 'second', text: "select holdfast.lock_key('a', 'holdfast.com')", purpose: '' },
  })
})

test('puts another schema in, and nowhere else', () => {
  expect(load('my-Schema').first.text).toBe(`select *\nfrom "my-Schema".name\nwhere namespace = 'holdfast'`)
})

test.each([
  ['plain', 'select "plain".fence'],
  ['with "quotes"', 'select "with ""quotes""".fence'],
  // What String.replace would read as "the match", "before the match" and a dollar.
  ['a$&b', 'select "a$&b".fence'],
  ['a$`b', 'select "a$`b".fence'],
  ['a$$b', 'select "a$$b".fence'],
])('takes the schema %s literally', (schema, expected) => {
  expect(inSchema('select holdfast.fence', schema)).toBe(expected)
})

test('leaves alone what only looks like the schema', () => {
  const sql = "select 'holdfast_extra.x', myholdfast.x, 'holdfast. Yes'"
  expect(inSchema(sql, 'other')).toBe(sql)
})

test('quotes identifiers', () => {
  expect(quoteIdentifier('a"b')).toBe('"a""b"')
})
