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

test('loadStatements returns the statements by name, without comments and semicolon', () => {
  expect(load('holdfast')).toEqual({
    first: {
      name: 'first',
      text: "select *\nfrom holdfast.name\nwhere namespace = 'holdfast'",
      purpose: 'What it is for.',
    },
    second: { name: 'second', text: "select holdfast.lock_key('a', 'holdfast.com')", purpose: '' },
  })
})

test('loadStatements replaces the schema name only where it is a qualifier', () => {
  expect(load('my-Schema').first.text).toBe(`select *\nfrom "my-Schema".name\nwhere namespace = 'holdfast'`)
})

test.each([
  ['plain', 'select "plain".fence'],
  ['with "quotes"', 'select "with ""quotes""".fence'],
  // String.replace would read these as "the match", "before the match" and a dollar sign.
  ['a$&b', 'select "a$&b".fence'],
  ['a$`b', 'select "a$`b".fence'],
  ['a$$b', 'select "a$$b".fence'],
])('inSchema inserts the schema name %s literally', (schema, expected) => {
  expect(inSchema('select holdfast.fence', schema)).toBe(expected)
})

test('inSchema does not change text that only resembles the schema name', () => {
  const sql = "select 'holdfast_extra.x', myholdfast.x, 'holdfast. Yes'"
  expect(inSchema(sql, 'other')).toBe(sql)
})

test('quoteIdentifier doubles quotes', () => {
  expect(quoteIdentifier('a"b')).toBe('"a""b"')
})
