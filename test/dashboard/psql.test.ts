// Tests that the SQL that the dashboard shows can be pasted and has the same meaning.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { literal, withValues } from '../../src/dashboard/psql.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sqlSession } from '../setup/facts.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const hostile = `it's "quoted", \\back\\slashed\\, {braces}, $1 and $2; -- not a comment\n\t\u0007\u202ertl\u200b 💣 '; drop table x`
const values: [type: string, value: unknown][] = [
  ['bigint', '-9223372036854775808'],
  ['bigint', 9007199254740991n],
  ['integer', -5],
  ['float8', 0.1],
  ['boolean', true],
  ['text', ''],
  ['text', hostile],
  ['text', null],
  ['text', undefined],
  ['text[]', ['a', hostile, null, 'null', '', 'a,b']],
  ['text[]', []],
  [
    'integer[]',
    [
      [1, 2],
      [3, 4],
    ],
  ],
  ['bigint[]', '{1,-2}'],
  ['jsonb', { a: hostile, b: [1, null] }],
  ['text::jsonb', JSON.stringify(hostile)],
  ['timestamptz', new Date('2026-03-29T01:30:00.123Z')],
  ['interval', '1 day 02:03:04'],
  ['bytea', Buffer.from([0, 39, 92, 255])],
]

test('a literal is the value that the driver would send', async () => {
  const session = await sqlSession(database.url)
  for (const [type, value] of values) {
    const [byParameter, byLiteral] = [
      `select ($1::${type})::text as it`,
      `select (${literal(value)}::${type})::text as it`,
    ]
    expect([type, (await session.query(byLiteral)).rows]).toEqual([
      type,
      (await session.query(byParameter, [value])).rows,
    ])
    expect(literal(value)).not.toMatch(/[\p{Cc}\p{Cf}]/u)
  }
  await session.query('set standard_conforming_strings = off')
  expect((await session.query(`select ${literal(hostile)} as it`)).rows).toEqual([{ it: hostile }])
})

test('withValues replaces parameters only', () => {
  const text = `select $1, '$1 ''$2', "$1", $$ $1 $$ -- $1\n/* $2 */ where a = $2 and b = $11`
  expect(withValues(text, ['$2', 2])).toBe(
    `select '$2', '$1 ''$2', "$1", $$ $1 $$ -- $1\n/* $2 */ where a = '2' and b = null`,
  )
})
