import { readFileSync } from 'node:fs'
import { checkNoMissingValue, describe, UsageError } from '../base/index.js'

/** One named statement of a `.sql` file, ready to be run in the schema it was made for. */
export interface Statement {
  readonly name: string
  readonly text: string
  /** What it is for, as the comment says that stands below its name. */
  readonly purpose?: string
}

const statementsByText = new Map<string, Statement>()

/** The statement with this text, if it is one of ours. */
export function statementByText(text: string): Statement | undefined {
  return statementsByText.get(text)
}

/**
 * SQL stands in `.sql` files beside the room that uses it, so that it can be read and pasted into psql. A statement
 * starts at a line `-- name: acquire`; the comment lines below it say what it is for and which index it relies on.
 * The files are written for the schema `holdfast`, or for `writtenFor`; another schema's name is put in here. A line
 * `-- include: used_queue` stands for the SQL below `-- part: used_queue` in the file `parts.sql` of the same folder.
 */
export function loadStatements<const Name extends string>(
  file: URL,
  schema: string,
  writtenFor = 'holdfast',
): Record<Name, Statement> {
  const written = readFileSync(file, 'utf8').replace(/^-- include: (\w+)$/gm, (_, part) => partOf(file, part))
  const sections = written.split(/^-- name: (\w+)$/m)
  const statements: Record<string, Statement> = {}
  for (let at = 1; at < sections.length; at += 2) {
    const [name, section] = [sections[at]!, sections[at + 1]!]
    const sql = section
      .replace(/^\s*--.*$\n?/gm, '')
      .trim()
      .replace(/;$/, '')
    const purpose = /^(?:\s*--.*\n)*/
      .exec(section)![0]
      .replace(/\s*-- ?/g, ' ')
      .trim()
    const text = inSchema(sql, schema, writtenFor)
    statements[name] = { name, text, purpose }
    statementsByText.set(text, statements[name])
  }
  return statements as Record<Name, Statement>
}

function partOf(file: URL, name: string): string {
  const sections = readFileSync(new URL('parts.sql', file), 'utf8').split(/^-- part: (\w+)$/m)
  const at = sections.indexOf(name)
  if (at < 0) throw new Error(`There is no part ${name} beside ${file}`)
  return sections[at + 1]!.trim()
}

/** The same SQL, for another schema. */
export function inSchema(sql: string, schema: string, writtenFor = 'holdfast'): string {
  if (schema === writtenFor) return sql
  return sql.replace(new RegExp(`\\b${writtenFor}\\.(?=[a-z_])`, 'g'), () => `${quoteIdentifier(schema)}.`)
}

/**
 * Refuses what cannot be the name of our schema: longer than PostgreSQL keeps names, or with a sign that would end the
 * string or the function body in which the migrations mention it.
 */
export function checkSchemaName(given: string): string {
  if (given !== '' && Buffer.byteLength(given) <= 63 && !/['$\0]/.test(given) && given.isWellFormed()) {
    checkNoMissingValue(given, 'schema')
    return given
  }
  throw new UsageError(
    `Expected schema to be a name of 1 to 63 bytes without apostrophes and dollar signs, got ${describe(given)}`,
  )
}

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/**
 * An array of numbers, keys in decimal or words, as PostgreSQL reads it from text: the same whatever the driver, and without the
 * quotation marks that node-postgres would put around every element.
 */
export function arrayLiteral(values: Iterable<number | string | boolean>): string {
  return `{${[...values].join(',')}}`
}
