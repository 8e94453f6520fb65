import { expect, test } from 'vitest'
import { verbs } from './commands.js'
import { fits, fitsRow, schemas } from './schemas.js'

/** Commands whose stdout comes from other programs, is not JSON, or follows a protocol. */
const withoutJson = ['lock-run', 'work', 'completion', 'mcp']

test('every command has a schema, and every schema has a command', () => {
  const commands = verbs.map(({ words }) => words.join('-')).filter((name) => !withoutJson.includes(name))
  expect([...schemas.keys()].sort()).toEqual(commands.sort())
})

test.each([...schemas])('the schema of %s is closed, and describes each property', (name, schema) => {
  expect(schema).toMatchObject({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `holdfast ${name.replace('-', ' ')} --json`,
    description: expect.any(String),
  })
  expect(faultsOf(schema, name)).toEqual([])
})

interface Schema {
  /** The definition that this refers to has the description. */
  readonly $ref?: string
  readonly type?: string | string[]
  readonly description?: string
  readonly properties?: Record<string, Schema>
  readonly additionalProperties?: boolean | Schema
  readonly items?: Schema
  readonly anyOf?: Schema[]
  readonly $defs?: Record<string, Schema>
}

/** Returns the places where a schema accepts unnamed properties or does not describe a property. */
function faultsOf(schema: Schema, at: string): string[] {
  const { properties = {}, additionalProperties, items, anyOf = [], $defs = {} } = schema
  const isOpen = schema.type === 'object' && additionalProperties === undefined
  const inner = [
    ...Object.entries({ ...properties, ...$defs }),
    ...anyOf.map((one, index) => [String(index), one] as const),
    ...(items ? [['[]', items] as const] : []),
    ...(typeof additionalProperties === 'object' ? [['*', additionalProperties] as const] : []),
  ]
  return [
    ...(isOpen || additionalProperties === true ? [`${at} is open`] : []),
    ...Object.entries(properties)
      .filter(([, { description, $ref }]) => !description && !$ref)
      .map(([property]) => `${at}.${property} is not described`),
    ...inner.flatMap(([name, one]) => faultsOf(one, `${at}.${name}`)),
  ]
}

test('fits and fitsRow throw for a value that does not match its schema', () => {
  expect(() => fits('job-add', { id: 1 })).not.toThrow()
  expect(() => fits('job-add', { id: '1' })).toThrow('must be integer')
  expect(() => fits('job-add', { id: 1, more: 2 })).toThrow('must NOT have additional properties')
  expect(() => fitsRow('migrate', { version: 1 })).toThrow("must have required property 'name'")
  expect(() => fits('lock-sl', [])).toThrow('There is no lock-sl')
})

test('a date is a string with a format, and a number is an integer unless its type says otherwise', () => {
  const { enqueuedAt, runAt, priority, progress } = schemas.get('job-ls').$defs.row.properties
  expect(enqueuedAt).toMatchObject({ type: 'string', format: 'date-time' })
  expect(runAt).toMatchObject({ type: ['string', 'null'], format: 'date-time' })
  expect(priority).toMatchObject({ type: 'integer' })
  expect(progress).toMatchObject({ anyOf: [{ $ref: '#/$defs/JobProgress' }, { type: 'null' }] })
  expect(schemas.get('job-ls').$defs.JobProgress.anyOf[0]).toMatchObject({ type: 'number' })
  // The type of this document uses `Omit`.
  expect(schemas.get('job-show').$defs.JobShow.properties.enqueuedAt).toMatchObject({
    type: 'string',
    format: 'date-time',
  })
})
