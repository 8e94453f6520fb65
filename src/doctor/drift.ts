import type { Check, DoctorContext } from './doctor-context.js'
import { type ExpectedSchema, expectedSchema } from './expected-schema.js'
import { type Finding, finding, formatList, theNamesAre } from './finding.js'

interface CatalogObject {
  kind: 'table' | 'column' | 'index' | 'function' | 'view' | 'sequence'
  name: string
  of: string | null
  detail: string | null
  is_valid: boolean
}

/**
 * Compares the catalog with the objects that the migrations and functions create. For views, checks only whether they
 * exist.
 */
export const drift: Check = {
  name: 'tables, indexes and functions',
  needsSchema: true,
  async run(context) {
    const expected = expectedSchema(context.schema, context.version)
    const actual = await context.query<CatalogObject>('catalog', [context.quotedSchema])
    // Compares functions and views only if this version of Holdfast applied them. Otherwise, the schema version check
    // reports the pending functions.
    return [
      tables(expected, actual),
      columns(context, expected, actual),
      sequences(expected, actual),
      context.hasOurFunctions ? functions(expected, actual) : undefined,
      ...indexes(context, expected, actual),
      ...storage(context, expected, actual),
    ]
  },
}

function missing<Value>(
  expected: ReadonlyMap<string, Value>,
  actual: readonly CatalogObject[],
  kind: CatalogObject['kind'],
): [string, Value][] {
  const names = namesOf(actual, kind)
  return [...expected].filter(([name]) => !names.has(name))
}

function namesOf(actual: readonly CatalogObject[], kind: CatalogObject['kind']): Set<string> {
  return new Set(actual.filter((thing) => thing.kind === kind).map(({ name }) => name))
}

const withoutEnd = (statement: string) => statement.replace(/;$/, '')

function tables(expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding | undefined {
  const lost = missing(expected.tables, actual, 'table')
  if (lost.length === 0) return undefined
  const names = lost.map(([name]) => name)
  const itsIndexes = [...expected.indexes.values()].filter(({ table }) => names.includes(table))
  return finding({
    id: 'tables-missing',
    severity: 'wrong',
    text: `${theNamesAre('table', names)} missing`,
    why: 'The rows of a missing table are lost, and statements that use the table fail.',
    facts: { tables: names.join(', ') },
    fix: {
      text: 'Restore the tables from a backup. Or create empty tables, and grant the same rights as on the other tables.',
      sql: [
        ...lost.flatMap(([, { statements }]) => statements),
        ...itsIndexes.map(({ statement }) => statement),
        ...lost.flatMap(([, { afterIndexes }]) => afterIndexes),
      ].map(withoutEnd),
    },
  })
}

function columns(
  context: DoctorContext,
  expected: ExpectedSchema,
  actual: readonly CatalogObject[],
): Finding | undefined {
  const known = new Set(actual.flatMap(({ kind, of, name }) => (kind === 'column' ? [`${of}.${name}`] : [])))
  const lost = [...expected.tables]
    .filter(([table]) => namesOf(actual, 'table').has(table))
    .flatMap(([table, { columns }]) => [...columns].map(([column, definition]) => ({ table, column, definition })))
    .filter(({ table, column }) => !known.has(`${table}.${column}`))
  if (lost.length === 0) return undefined
  const names = lost.map(({ table, column }) => `${table}.${column}`)
  return finding({
    id: 'columns-missing',
    severity: 'wrong',
    text: `${theNamesAre('column', names)} missing`,
    why: 'Statements that use a missing column fail.',
    facts: { columns: names.join(', ') },
    fix: {
      text: 'Restore the columns from a backup. Or add the columns, if the table is empty or the column has a default.',
      sql: lost.map(
        ({ table, column, definition }) =>
          `alter table ${context.qualifiedName(table)} add column ${column} ${definition}`,
      ),
    },
  })
}

function sequences(expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding | undefined {
  const lost = missing(expected.sequences, actual, 'sequence')
  if (lost.length === 0) return undefined
  const names = lost.map(([name]) => name)
  return finding({
    id: 'sequences-missing',
    severity: 'wrong',
    text: `${theNamesAre('sequence', names)} missing`,
    why: 'No lock can be granted, and no job can be enqueued. The sequences must continue above all numbers in use, because fencing tokens and job ids must never repeat.',
    facts: { sequences: names.join(', ') },
    fix: {
      text: 'Create the sequences, and set each sequence to a value far above the largest number in use: fence above all fences in fence_guard, lease, job_end and job_stopped, job_number above all job ids.',
      sql: lost.map(([, statement]) => withoutEnd(statement)),
    },
  })
}

function functions(expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding | undefined {
  const functionNames = namesOf(actual, 'function')
  const viewNames = namesOf(actual, 'view')
  const bodies = new Map(actual.flatMap(({ kind, name, detail }) => (kind === 'function' ? [[name, detail]] : [])))
  const lost = new Set(
    [...expected.functions].flatMap(([name, { body }]) =>
      (body === undefined ? viewNames : functionNames).has(name) ? [] : [name],
    ),
  )
  const changed = new Set(
    [...expected.functions].flatMap(([name, { body }]) =>
      body !== undefined && bodies.has(name) && bodies.get(name) !== body ? [name] : [],
    ),
  )
  if (lost.size + changed.size === 0) return undefined
  const describe = (names: ReadonlySet<string>, state: string) =>
    names.size === 0 ? [] : [`${formatList([...names])} ${names.size === 1 ? 'is' : 'are'} ${state}`]
  return finding({
    id: 'functions-differ',
    severity: 'wrong',
    text: `Functions differ: ${[...describe(lost, 'missing'), ...describe(changed, 'changed')].join('; ')}`,
    why: 'The guarantees of Holdfast depend on these functions and views.',
    facts: { missing: lost.size, changed: changed.size },
    fix: {
      text: 'Restore the original functions.',
      // In the order of the files, because a function or view can be created only after those that it uses.
      sql: [...expected.functions].flatMap(([name, { statements }]) =>
        lost.has(name) || changed.has(name) ? statements.map(withoutEnd) : [],
      ),
      fixable: true,
    },
  })
}

function indexes(context: DoctorContext, expected: ExpectedSchema, actual: readonly CatalogObject[]) {
  const tables = namesOf(actual, 'table')
  const lost = missing(expected.indexes, actual, 'index').filter(([, { table }]) => tables.has(table))
  const isConcurrent = ([, { table }]: (typeof lost)[number]) => !expected.partitioned.has(table)
  const invalid = actual.filter(({ kind, is_valid }) => kind === 'index' && !is_valid).map(({ name }) => name)
  return [
    missingIndexes('missing', lost.filter(isConcurrent), true),
    ...[...expected.partitioned].map((table) =>
      missingIndexes(
        `missing on ${table}`,
        lost.filter(([, index]) => index.table === table),
        false,
      ),
    ),
    invalidIndexes(context, expected, invalid),
  ]
}

function missingIndexes(
  subject: string,
  lost: readonly (readonly [string, { table: string; statement: string }])[],
  isConcurrent: boolean,
): Finding | undefined {
  if (lost.length === 0) return undefined
  return finding({
    id: 'indexes-differ',
    severity: 'wrong',
    subject,
    text: `${theNamesAre(
      'index',
      lost.map(([name, { table }]) => `${name} on ${table}`),
    )} missing`,
    why: 'Statements that used the index read the whole table and become slower with every row.',
    facts: { indexes: lost.map(([name]) => name).join(', ') },
    fix: {
      text: isConcurrent
        ? 'Create the index. Other sessions can still write.'
        : 'Create the index at a time with little load. No session can write to the table while the index is being created.',
      sql: lost.map(([, { statement }]) =>
        withoutEnd(isConcurrent ? statement.replace(/ index /, ' index concurrently ') : statement),
      ),
      fixable: isConcurrent,
    },
  })
}

function invalidIndexes(context: DoctorContext, expected: ExpectedSchema, invalid: readonly string[]) {
  if (invalid.length === 0) return undefined
  // An interrupted `reindex concurrently` leaves an index whose name ends with `_ccnew` or `_ccold`.
  const isLeft = (name: string) => /_cc(new|old)\d*$/.test(name) && !expected.indexes.has(name)
  return finding({
    id: 'indexes-differ',
    severity: 'wrong',
    subject: 'invalid',
    text: `${theNamesAre('index', invalid)} invalid, because index creation was interrupted`,
    why: 'Every write updates an invalid index, but no query uses the index.',
    facts: { indexes: invalid.join(', ') },
    fix: {
      text: 'Rebuild the index. Other sessions can still write.',
      sql: invalid.map(
        (name) => `${isLeft(name) ? 'drop' : 'reindex'} index concurrently ${context.qualifiedName(name)}`,
      ),
      fixable: true,
    },
  })
}

/**
 * Checks that the tables have the storage settings from the migrations, and that autovacuum is on. Ignores all other
 * storage settings, because users may choose them.
 */
function storage(context: DoctorContext, expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding[] {
  const of = new Map(actual.flatMap(({ kind, name, detail }) => (kind === 'table' ? [[name, optionsOf(detail)]] : [])))
  return [...expected.tables].flatMap(([table, { options }]) => {
    const now = of.get(table)
    if (!now) return []
    const changed = [...options].filter(([option, value]) => now.get(option) !== value)
    const isOff = ['false', 'off', '0', 'no'].includes(now.get('autovacuum_enabled') ?? '')
    if (changed.length === 0 && !isOff) return []
    const differences = changed.map(
      ([option, value]) => `${option} is ${now.get(option) ?? 'the default'} instead of ${value}`,
    )
    return finding({
      id: 'storage-differs',
      severity: isOff ? 'risky' : 'note',
      subject: table,
      text: `Storage settings of the table ${table} differ: ${[...(isOff ? ['autovacuum is off'] : []), ...differences].join('; ')}`,
      why: 'These settings prevent tables that change often from growing.',
      facts: { table, autovacuum: !isOff, changed: changed.map(([option]) => option).join(', ') },
      fix: {
        text: 'Restore the original settings.',
        sql: [
          ...(changed.length === 0
            ? []
            : [
                `alter table ${context.qualifiedName(table)} set (${changed.map((pair) => pair.join(' = ')).join(', ')})`,
              ]),
          ...(isOff ? [`alter table ${context.qualifiedName(table)} reset (autovacuum_enabled)`] : []),
        ],
        fixable: true,
      },
    })
  })
}

function optionsOf(detail: string | null): Map<string, string> {
  return new Map((detail ?? '').split(',').flatMap((pair) => (pair ? [pair.split('=') as [string, string]] : [])))
}
