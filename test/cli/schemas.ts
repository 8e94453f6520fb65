// Loads the published schemas of `--json` and `--jsonl` output: holdfast/schemas/<noun>-<verb>.schema.json.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Ajv2020 } from 'ajv/dist/2020.js'

const directory = fileURLToPath(new URL('../../dist/schemas/', import.meta.url))
const ending = '.schema.json'

const ajv = new Ajv2020({
  strict: true,
  allowUnionTypes: true,
  allErrors: true,
  // The only format in which the command line prints times.
  formats: { 'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/ },
})

/** Schemas by command, for example `lock-ls`. */
export const schemas = new Map(
  readdirSync(directory).map((file) => [file.replace(ending, ''), JSON.parse(readFileSync(directory + file, 'utf8'))]),
)
for (const [name, schema] of schemas) ajv.addSchema(schema, name + ending)

/** Checks the output of `holdfast <noun> <verb> --json` against its schema and returns the output. */
export function fits<T>(name: string, value: T): T {
  return fitsTo(`${name}${ending}`, value)
}

/** Checks one row of `--jsonl` output against its schema and returns the row. */
export function fitsRow<T>(name: string, value: T): T {
  return fitsTo(`${name}${ending}#/$defs/row`, value)
}

/**
 * Checks one line of `--jsonl` output of any verb. A list prints one row per line. Any other verb prints its document on one
 * line.
 */
export function fitsLine<T>(name: string, value: T): T {
  return hasRows(name) ? fitsRow(name, value) : fits(name, value)
}

export function hasRows(name: string): boolean {
  return schemas.get(name).$defs?.row !== undefined
}

/** Returns the schema name for the words of a command. */
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
