import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { checkNoMissingValue, describe, UsageError } from '../base/index.js'

/** A named statement from a `.sql` file, for one schema. */
export interface Statement {
  readonly name: string
  readonly text: string
  /** Description of the statement: the comment below its name. */
  readonly purpose?: string
  /** Name of the prepared statement. Undefined if the server plans the statement for each call. */
  readonly preparedAs?: string
}

const statementsByText = new Map<string, Statement>()

/** Returns the loaded statement with this text. */
export function statementByText(text: string): Statement | undefined {
  return statementsByText.get(text)
}

/**
 * Loads the statements from a `.sql` file. A statement starts with a line `-- name: acquire`. The comment below this
 * line describes the statement and the index that the statement relies on. The line `-- name: acquire prepared` marks a
 * hot statement that calls a function, so that each connection parses and plans the statement only once. The plan of a
 * statement that reads tables itself would become outdated. The files are written for the `holdfast` schema (or
 * `writtenFor`). For a different schema, this function replaces the name. A line `-- include: used_queue` is replaced
 * by the SQL below `-- part: used_queue` in `parts.sql` of the same folder.
 *
 * The file is read when one of its statements is used for the first time, because a new process rarely needs all files.
 */
export function loadStatements<const Name extends string>(
  file: URL,
  schema: string,
  writtenFor = 'holdfast',
): Record<Name, Statement> {
  let loaded: Record<string, Statement> | undefined
  const all = () => {
    loaded ??= readStatements(file, schema, writtenFor)
    return loaded
  }
  return new Proxy({} as Record<Name, Statement>, {
    get: (_, name) => all()[name as string],
    ownKeys: () => Object.keys(all()),
    getOwnPropertyDescriptor: (_, name) => Object.getOwnPropertyDescriptor(all(), name),
  })
}

function readStatements(file: URL, schema: string, writtenFor: string): Record<string, Statement> {
  const written = withParts(file, readFileSync(file, 'utf8'))
  const sections = written.split(/^-- name: (\w+)( prepared)?$/m)
  const statements: Record<string, Statement> = {}
  for (let at = 1; at < sections.length; at += 3) {
    const [name, isPrepared, section] = [sections[at]!, sections[at + 1], sections[at + 2]!]
    const sql = section
      .replace(/^\s*--.*$\n?/gm, '')
      .trim()
      .replace(/;$/, '')
    const purpose = /^(?:\s*--.*\n)*/
      .exec(section)![0]
      .replace(/\s*-- ?/g, ' ')
      .trim()
    const text = inSchema(sql, schema, writtenFor)
    statements[name] = { name, text, purpose, ...(isPrepared ? { preparedAs: preparedName(name, text) } : {}) }
    statementsByText.set(text, statements[name])
  }
  return statements
}

/** Two schemas, or two versions of this code on one pool, have statements with the same name but different texts. */
function preparedName(name: string, text: string): string {
  return `holdfast_${name}_${createHash('sha256').update(text).digest('hex').slice(0, 8)}`
}

/** Replaces each `-- include:` line by the part, which can include other parts. */
function withParts(file: URL, text: string): string {
  return text.replace(/^-- include: (\w+)$/gm, (_, part) => withParts(file, partOf(file, part)))
}

function partOf(file: URL, name: string): string {
  const sections = readFileSync(new URL('parts.sql', file), 'utf8').split(/^-- part: (\w+)$/m)
  const at = sections.indexOf(name)
  if (at < 0) throw new Error(`There is no part ${name} in parts.sql next to ${file}`)
  return sections[at + 1]!.trim()
}

/** Replaces the schema in SQL. */
export function inSchema(sql: string, schema: string, writtenFor = 'holdfast'): string {
  if (schema === writtenFor) return sql
  return sql.replace(new RegExp(`\\b${writtenFor}\\.(?=[a-z_])`, 'g'), () => `${quoteIdentifier(schema)}.`)
}

/**
 * Throws if the name cannot be a schema name, because it is too long for PostgreSQL or contains a character that would end a string or a
 * function body in the migrations.
 */
export function checkSchemaName(given: string): string {
  if (given !== '' && Buffer.byteLength(given) <= 63 && !/['$\0]/.test(given) && given.isWellFormed()) {
    checkNoMissingValue(given, 'schema')
    return given
  }
  throw new UsageError(
    `Expected schema to be a name of 1 to 63 bytes without apostrophes or dollar signs, got ${describe(given)}`,
  )
}

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/**
 * Formats numbers, decimal keys or plain words as a PostgreSQL array literal. The literal works with every driver and is shorter than a
 * node-postgres array, in which every element is quoted.
 */
export function arrayLiteral(values: Iterable<number | string | boolean>): string {
  return `{${[...values].join(',')}}`
}
