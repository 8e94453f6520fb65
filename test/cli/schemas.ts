// The published schemas of what `--json` and `--jsonl` print: holdfast/schemas/<noun>-<verb>.schema.json.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Ajv2020 } from 'ajv/dist/2020.js'

const directory = fileURLToPath(new URL('../../dist/schemas/', import.meta.url))
const ending = '.schema.json'

const ajv = new Ajv2020({
  strict: true,
  allowUnionTypes: true,
  allErrors: true,
  // The one way in which moments are printed.
  formats: { 'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/ },
})

/** By what they describe, such as `lock-ls`. */
export const schemas = new Map(
  readdirSync(directory).map((file) => [file.replace(ending, ''), JSON.parse(readFileSync(directory + file, 'utf8'))]),
)
for (const [name, schema] of schemas) ajv.addSchema(schema, name + ending)

/** Expects what `holdfast <noun> <verb> --json` printed to be as its schema says, and answers with it. */
export function fits<T>(name: string, value: T): T {
  return fitsTo(`${name}${ending}`, value)
}

/** The same for one line of `--jsonl`. */
export function fitsRow<T>(name: string, value: T): T {
  return fitsTo(`${name}${ending}#/$defs/row`, value)
}

/** The same for whatever verb: what lists prints a row a line, what answers with one document prints that in a line. */
export function fitsLine<T>(name: string, value: T): T {
  return hasRows(name) ? fitsRow(name, value) : fits(name, value)
}

export function hasRows(name: string): boolean {
  return schemas.get(name).$defs?.row !== undefined
}

/** The name of the schema of these words. */
export function schemaOf(words: readonly string[]): string {
  const [noun, verb] = words
  const both = `${noun}-${verb}`
  return schemas.has(both) ? both : noun!
}

function fitsTo<T>(reference: string, value: T): T {
  const validate = ajv.getSchema(reference)
  if (!validate) throw new Error(`There is no ${reference}`)
  if (validate(value)) return value
  throw new Error(`${ajv.errorsText(validate.errors, { dataVar: reference })}: ${JSON.stringify(value, null, 2)}`)
}
