import { expect, test } from 'vitest'
import { verbs } from './commands.js'
import { fits, fitsRow, schemas } from './schemas.js'

/** What these print is no data of ours. */
const withoutJson = ['lock-run', 'work', 'completion']

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
  /** What it points to says what it is. */
  readonly $ref?: string
  readonly type?: string | string[]
  readonly description?: string
  readonly properties?: Record<string, Schema>
  readonly additionalProperties?: boolean | Schema
  readonly items?: Schema
  readonly anyOf?: Schema[]
  readonly $defs?: Record<string, Schema>
}

/** Where a schema lets through what it does not name, or leaves a property unexplained. */
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

test('what does not fit is told', () => {
  expect(() => fits('queue-redrive', { redriven: 1 })).not.toThrow()
  expect(() => fits('queue-redrive', { redriven: '1' })).toThrow('must be integer')
  expect(() => fits('queue-redrive', { redriven: 1, more: 2 })).toThrow('must NOT have additional properties')
  expect(() => fitsRow('migrate', { version: 1 })).toThrow("must have required property 'name'")
  expect(() => fits('lock-sl', [])).toThrow('There is no lock-sl')
})

test('a date is a string with a format, and a number is an integer unless its type says otherwise', () => {
  const { enqueuedAt, runAt, priority, progress } = schemas.get('job-ls').$defs.row.properties
  expect(enqueuedAt).toMatchObject({ type: 'string', format: 'date-time' })
  expect(runAt).toMatchObject({ type: ['string', 'null'], format: 'date-time' })
  expect(priority).toMatchObject({ type: 'integer' })
  expect(progress).toMatchObject({ type: ['number', 'null'] })
  // The type of this document is made with `Omit`.
  expect(schemas.get('job-show').$defs.JobShow.properties.enqueuedAt).toMatchObject({
    type: 'string',
    format: 'date-time',
  })
})
