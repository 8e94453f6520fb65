import { allMigrations, inSchema, roomFunctions } from '../postgres/index.js'

/**
 * Objects that the migrations and functions create, parsed from their SQL. Therefore, the doctor does not need the
 * right to create a scratch schema for comparison, and it can show the statement that creates each object. The parser
 * relies on the migrations' style. A test compares its result with a migrated database's catalog.
 */
export interface ExpectedSchema {
  readonly tables: Map<string, ExpectedTable>
  /** Maps each index to its table and to the statement that creates the index. */
  readonly indexes: Map<string, { table: string; statement: string }>
  /** Tables on which PostgreSQL cannot create an index concurrently. */
  readonly partitioned: Set<string>
  /**
   * Maps each function to its body, and to the statements that create the function, change its settings and grant its
   * rights. Contains views too, without a body, because views and functions use each other.
   */
  readonly functions: Map<string, { body: string | undefined; statements: string[] }>
  readonly sequences: Map<string, string>
}

export interface ExpectedTable {
  /** Statements that create and alter the table. */
  readonly statements: string[]
  /** Statements that refer to the table's indexes. */
  readonly afterIndexes: string[]
  /** Maps each column to its definition. */
  readonly columns: Map<string, string>
  /** Storage settings. */
  readonly options: Map<string, string>
}

/** Parses the migrations up to a schema version, and this version of Holdfast's functions. */
export function expectedSchema(schema: string, upTo: number): ExpectedSchema {
  const expected: ExpectedSchema = {
    tables: new Map(),
    indexes: new Map(),
    partitioned: new Set(),
    functions: new Map(),
    sequences: new Map(),
  }
  for (const { version, sql } of allMigrations('holdfast')) {
    if (version <= upTo) for (const statement of statementsOf(sql)) addStatement(expected, statement, schema)
  }
  for (const { sql } of roomFunctions('holdfast')) {
    for (const statement of statementsOf(sql)) addStatement(expected, statement, schema)
  }
  return expected
}

/** Splits SQL into statements. A statement ends with a semicolon at the end of a line outside a function body. */
function statementsOf(sql: string): string[] {
  const statements: string[] = []
  let lines: string[] = []
  let isInBody = false
  for (const line of sql.split('\n')) {
    if (!isInBody && /^\s*(--.*)?$/.test(line)) continue
    lines.push(line)
    if (line.split('$$').length % 2 === 0) isInBody = !isInBody
    if (isInBody || !line.endsWith(';')) continue
    statements.push(lines.join('\n'))
    lines = []
  }
  return statements
}

function addStatement(expected: ExpectedSchema, statement: string, schema: string): void {
  const here = inSchema(statement, schema)
  const [, kind, name] = /^create (?:or replace |unlogged |unique )*(\w+) (?:holdfast\.)?(\w+)/.exec(statement) ?? []
  // Matches statements that change a function's rights or planner settings. Such a statement must run again after
  // `create or replace`, which removes the function's settings.
  const [, adjusted] = /^(?:revoke execute on|alter) function holdfast\.(\w+)/.exec(statement) ?? []
  const [, altered] = /^alter table holdfast\.(\w+)/.exec(statement) ?? []
  if (kind === 'table') {
    expected.tables.set(name!, readTable(statement, here))
    if (/\) partition by /.test(statement)) expected.partitioned.add(name!)
  } else if (kind === 'view') expected.functions.set(name!, { body: undefined, statements: [here] })
  else if (kind === 'sequence') expected.sequences.set(name!, here)
  else if (kind === 'index') {
    expected.indexes.set(name!, { table: / on holdfast\.(\w+)/.exec(statement)![1]!, statement: here })
  } else if (kind === 'function') {
    expected.functions.set(name!, { body: here.split('$$')[1]!, statements: [here] })
  } else if (adjusted !== undefined) expected.functions.get(adjusted)!.statements.push(here)
  else if (altered !== undefined) {
    const table = expected.tables.get(altered)!
    if (/ using index /.test(statement)) table.afterIndexes.push(here)
    else table.statements.push(here)
    for (const [, column, definition] of statement.matchAll(/\badd column (\w+) ([^,;]+)/g)) {
      table.columns.set(column!, definition!)
    }
  }
}

const constraint = /^(primary|unique|check|constraint|foreign|exclude)\b/

function readTable(statement: string, here: string): ExpectedTable {
  const columns = new Map<string, string>()
  const options = new Map<string, string>()
  const [, body = ''] = /\(\n(.*?)\n\)/s.exec(statement) ?? []
  for (const [, line] of body.matchAll(/^ {2}(\w.*?),?$/gm)) {
    if (constraint.test(line!)) continue
    const [, column, definition] = /^(\w+) (.*)$/.exec(line!)!
    columns.set(column!, definition!)
  }
  const [, given = ''] = /\n\) with \((.*)\);$/s.exec(statement) ?? []
  for (const [, option, value] of given.matchAll(/(\w+) = ([\w.]+)/g)) options.set(option!, value!)
  return { statements: [here], afterIndexes: [], columns, options }
}
