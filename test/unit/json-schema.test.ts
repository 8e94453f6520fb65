// The check of inputs against a JSON schema must agree with a complete validator for all the keywords that the check supports.
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { schemaDifference } from '../../src/base/index.js'

const tree = z.object({
  name: z.string().min(1).max(5),
  get children() {
    return z.array(tree).max(2).optional()
  },
})
const schemas: Record<string, object | boolean> = {
  mail: z.toJSONSchema(
    z.object({
      to: z.string(),
      cc: z.array(z.string()).optional(),
      kind: z.enum(['a', 'b']),
      times: z.int().min(1).max(3),
    }),
    { io: 'input' },
  ),
  strict: z.toJSONSchema(z.strictObject({ a: z.union([z.string(), z.null()]), b: z.literal(5).optional() })),
  tree: z.toJSONSchema(tree),
  record: z.toJSONSchema(z.record(z.string(), z.number().gt(0))),
  tuple: z.toJSONSchema(z.tuple([z.string(), z.boolean()])),
  either: { oneOf: [{ type: 'string' }, { type: 'object', required: ['x'] }] },
  both: { allOf: [{ type: 'object', required: ['x'] }, { properties: { x: { type: ['integer', 'null'] } } }] },
  nothing: false,
  anything: true,
}
const mail = { to: 'ada', kind: 'a', times: 1 }
const values: unknown[] = [
  null,
  5,
  'text',
  [],
  {},
  mail,
  { ...mail, cc: ['bob'] },
  { ...mail, cc: [5] },
  { ...mail, kind: 'c' },
  { ...mail, times: 1.5 },
  { ...mail, times: 4 },
  { ...mail, other: 1 },
  { a: null },
  { a: 'x', b: 5 },
  { a: 'x', b: 6 },
  { a: 'x', c: 1 },
  { name: 'root', children: [{ name: 'leaf' }, { name: 'leaf' }] },
  { name: 'root', children: [{ name: 'longer' }] },
  { name: '', children: [] },
  { name: 'root', children: [{ name: 'a' }, { name: 'b' }, { name: 'c' }] },
  ['x', true],
  ['x', 'y'],
  { x: 1 },
  { x: 0 },
  { x: null },
  { x: 'y' },
]

describe('schemaDifference', () => {
  test.each(Object.entries(schemas))('agrees with a complete validator: %s', (_, schema) => {
    const validate = new Ajv2020({ strict: false }).compile(schema)
    for (const value of values) {
      expect([value, schemaDifference(value, schema) === undefined]).toEqual([value, validate(value)])
    }
  })

  test('names the place, what the schema expects, and the value', () => {
    expect(schemaDifference({ ...mail, cc: ['x', 5] }, schemas.mail)).toBe('cc[1]: expected a string, got 5')
    expect(schemaDifference({ to: 'ada', times: 1 }, schemas.mail)).toBe('kind is missing')
    expect(schemaDifference({ a: null, c: 1 }, schemas.strict)).toBe('c is not a known property')
    expect(schemaDifference({ ...mail, kind: 'c' }, schemas.mail)).toBe('kind: expected "a" or "b", got "c"')
    expect(schemaDifference(5, { $ref: '#' })).toBeUndefined()
  })
})
