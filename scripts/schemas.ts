// Writes JSON schemas for the documents that commands print with `--json`, from the types in src/cli/documents.ts and
// their doc comments.
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

interface Schema {
  $ref?: string
  type?: string | string[]
  format?: string
  description?: string | undefined
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  fraction?: string
  [keyword: string]: unknown
}

/** Name of the definition that describes one line of `--jsonl`. */
const row = 'row'

/** Writes one schema per command into the folder. */
export function writeSchemas(folder: string) {
  const generator = makeGenerator()
  const [documents, lines] = ['Documents', 'JsonLines'].map((type) => generator.createSchema(type) as Schema)
  const definitions = Object.fromEntries(
    [documents!, lines!].flatMap(({ definitions }) =>
      Object.entries(definitions as Record<string, Schema>).map(([name, schema]) => [name, plain(schema)]),
    ),
  )
  mkdirSync(folder, { recursive: true })
  for (const [name, document] of Object.entries(documents!.properties!)) {
    const schema = schemaOf(name, plain(document), lines!.properties![name], definitions)
    writeFileSync(`${folder}/${name}.schema.json`, JSON.stringify(schema))
  }
}

function makeGenerator() {
  // The generator brings its own TypeScript, because TypeScript 7 has no API for programs. Both are CommonJS.
  const { BaseType, createFormatter, createParser, createProgram, DEFAULT_CONFIG, SchemaGenerator } = createRequire(
    import.meta.url,
  )('ts-json-schema-generator') as typeof import('ts-json-schema-generator')

  /** The generator represents `Date` as a string with an annotation, and drops the annotation in mapped types such as `Omit`. */
  class DateType extends BaseType {
    getId() {
      return 'Date'
    }
  }

  const config = {
    ...DEFAULT_CONFIG,
    // The generator reads the declarations, because they are faster to read than src.
    path: pathOf('dist/cli/documents.d.ts'),
    tsconfig: pathOf('tsconfig.json'),
    skipTypeCheck: true,
    topRef: false,
    sortProps: false,
    encodeRefs: false,
    extraTags: ['fraction'],
  }
  const program = createProgram(config)
  const parser = createParser(program, config, (chain) => {
    chain.addNodeParser({
      supportsNode: (node) => 'typeName' in node && (node.typeName as { text?: string }).text === 'Date',
      createType: () => new DateType(),
    })
  })
  const formatter = createFormatter(config, (chain) => {
    chain.addTypeFormatter({
      supportsType: (type) => type instanceof DateType,
      getDefinition: () => ({ type: 'string', format: 'date-time' }),
      getChildren: () => [],
    })
  })
  return new SchemaGenerator(program, parser, formatter, config)
}

const pathOf = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** Returns a document's whole schema, with every definition that it refers to. */
function schemaOf(name: string, document: Schema, line: Schema | undefined, definitions: Record<string, Schema>) {
  const { description, ...root } = document
  const rowType = targetOf(line ?? root.items ?? {})
  const rootType = targetOf(root)
  const body = rootType !== undefined && rootType !== rowType ? definitions[rootType]! : root
  const { description: _, ...rest } = body
  const used = new Set<string>()
  const collect = (schema: unknown) => {
    for (const type of referencesIn(schema)) {
      if (used.has(type)) continue
      used.add(type)
      collect(definitions[type])
    }
  }
  collect([body, line])
  const $defs = Object.fromEntries([...used].map((type) => [type === rowType ? row : type, definitions[type]!]))
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: `holdfast ${name.replace('-', ' ')} --json`,
    description,
    ...rest,
    ...(used.size > 0 && { $defs }),
  }
  return mapped(schema, (one) => {
    const type = targetOf(one)
    return type === undefined ? one : { ...one, $ref: `#/$defs/${type === rowType ? row : type}` }
  })
}

/** Adapts one of the generator's schemas: integers, and dates that may be null. */
function plain(schema: Schema): Schema {
  return mapped(withFractions(schema), (one) => nullable(whole(one)))
}

/** Moves the tag `@fraction` of a union type to its members. */
function withFractions({ fraction, ...schema }: Schema): Schema {
  if (fraction === undefined || !schema.anyOf) return fraction === undefined ? schema : { ...schema, fraction }
  return { ...schema, anyOf: schema.anyOf.map((member) => ({ ...member, fraction })) }
}

/** Makes a number an integer, unless its doc comment has the tag `@fraction`. TypeScript has only one number type. */
function whole({ fraction, ...schema }: Schema): Schema {
  if (fraction !== undefined || schema.type === undefined) return schema
  const integer = (type: string) => (type === 'number' ? 'integer' : type)
  return { ...schema, type: Array.isArray(schema.type) ? schema.type.map(integer) : integer(schema.type) }
}

/** Combines `Date | null` into one type. */
function nullable({ anyOf, ...schema }: Schema): Schema {
  const [first, second] = anyOf ?? []
  const isNullable = anyOf?.length === 2 && second!.type === 'null' && typeof first!.type === 'string' && first!.format
  if (!isNullable) return anyOf ? { ...schema, anyOf } : schema
  return { ...first, ...schema, type: [first!.type as string, 'null'] }
}

/** Applies a function to a schema and to every schema in it, the inner ones first. */
function mapped(schema: Schema, change: (schema: Schema) => Schema): Schema {
  const all = <Key extends string>(schemas: Record<Key, Schema>) =>
    Object.fromEntries(Object.entries<Schema>(schemas).map(([key, one]) => [key, mapped(one, change)]))
  const { properties, items, anyOf, additionalProperties, $defs } = schema
  return change({
    ...schema,
    ...(properties && { properties: all(properties) }),
    ...(items && { items: mapped(items, change) }),
    ...(anyOf && { anyOf: anyOf.map((one) => mapped(one, change)) }),
    ...(typeof additionalProperties === 'object' && {
      additionalProperties: mapped(additionalProperties as Schema, change),
    }),
    ...($defs !== undefined && { $defs: all($defs as Record<string, Schema>) }),
  })
}

const prefix = '#/definitions/'
const targetOf = ({ $ref }: Schema) => ($ref?.startsWith(prefix) ? $ref.slice(prefix.length) : undefined)

/** Returns the names of the definitions that a schema refers to directly. */
function referencesIn(schema: unknown): string[] {
  if (schema === null || typeof schema !== 'object') return []
  const target = targetOf(schema as Schema)
  return [...(target === undefined ? [] : [target]), ...Object.values(schema).flatMap(referencesIn)]
}
