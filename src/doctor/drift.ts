import type { Check, DoctorContext } from './doctor-context.js'
import { type ExpectedSchema, expectedSchema } from './expected-schema.js'
import { type Finding, finding, formatList, theNamesAre } from './finding.js'

interface CatalogObject {
  kind: 'table' | 'column' | 'index' | 'function' | 'sequence'
  name: string
  of: string | null
  detail: string | null
  is_valid: boolean
}

/** Whether what the migrations have made is still there, and as they have made it. */
export const drift: Check = {
  name: 'tables, indexes and functions, beside what the migrations make',
  needsSchema: true,
  async run(context): Promise<Finding[]> {
    const expected = expectedSchema(context.schema, context.version)
    const actual = await context.query<CatalogObject>('catalog', [context.quotedSchema])
    // Functions of another version of Holdfast may differ. Those that are pending are a finding already.
    const functionFindings = context.hasOurFunctions ? functions(expected, actual) : []
    return [
      ...tables(expected, actual),
      ...columns(context, expected, actual),
      ...sequences(expected, actual),
      ...functionFindings,
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

function tables(expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding[] {
  const lost = missing(expected.tables, actual, 'table')
  if (lost.length === 0) return []
  const names = lost.map(([name]) => name)
  const itsIndexes = [...expected.indexes.values()].filter(({ table }) => names.includes(table))
  return [
    finding({
      id: 'tables-missing',
      severity: 'wrong',
      text: `${theNamesAre('table', names)} not there any more`,
      why: 'What was in them is lost, and whoever needs them fails.',
      facts: { tables: names.join(', ') },
      fix: {
        text: 'Bring them back from a backup; or make them anew, empty, and grant the rights on them that the others have.',
        sql: [...lost.flatMap(([, { statements }]) => statements), ...itsIndexes.map(({ statement }) => statement)].map(
          withoutEnd,
        ),
      },
    }),
  ]
}

function columns(context: DoctorContext, expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding[] {
  const known = new Set(actual.flatMap(({ kind, of, name }) => (kind === 'column' ? [`${of}.${name}`] : [])))
  const lost = [...expected.tables]
    .filter(([table]) => namesOf(actual, 'table').has(table))
    .flatMap(([table, { columns }]) => [...columns].map(([column, definition]) => ({ table, column, definition })))
    .filter(({ table, column }) => !known.has(`${table}.${column}`))
  if (lost.length === 0) return []
  const names = lost.map(({ table, column }) => `${table}.${column}`)
  return [
    finding({
      id: 'columns-missing',
      severity: 'wrong',
      text: `${theNamesAre('column', names)} not there`,
      why: 'Whoever needs them fails.',
      facts: { columns: names.join(', ') },
      fix: {
        text: 'Bring them back from a backup; or add them, where the table is empty or the column has a default.',
        sql: lost.map(
          ({ table, column, definition }) =>
            `alter table ${context.qualifiedName(table)} add column ${column} ${definition}`,
        ),
      },
    }),
  ]
}

function sequences(expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding[] {
  const lost = missing(expected.sequences, actual, 'sequence')
  if (lost.length === 0) return []
  const names = lost.map(([name]) => name)
  return [
    finding({
      id: 'sequences-missing',
      severity: 'wrong',
      text: `${theNamesAre('sequence', names)} not there any more`,
      why: 'Nothing can be granted or enqueued. And numbers that were given out must not come again: later fences are larger.',
      facts: { sequences: names.join(', ') },
      fix: {
        text: 'Make them anew, and set each far above the largest number that it has given out: fence above all in fence_guard, lease and job_history, job_number above all ids.',
        sql: lost.map(([, statement]) => withoutEnd(statement)),
      },
    }),
  ]
}

function functions(expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding[] {
  const lost = missing(expected.functions, actual, 'function')
  const bodies = new Map(actual.flatMap(({ kind, name, detail }) => (kind === 'function' ? [[name, detail]] : [])))
  const changed = [...expected.functions].filter(([name, { body }]) => bodies.has(name) && bodies.get(name) !== body)
  if (lost.length + changed.length === 0) return []
  const describe = (list: [string, unknown][], what: string) =>
    list.length === 0 ? [] : [`${formatList(list.map(([name]) => name))} ${list.length === 1 ? 'is' : 'are'} ${what}`]
  return [
    finding({
      id: 'functions-differ',
      severity: 'wrong',
      text: `Of the functions, ${[...describe(lost, 'missing'), ...describe(changed, 'not what was applied')].join('; ')}`,
      why: 'The promises of Holdfast are kept inside these functions.',
      facts: { missing: lost.length, changed: changed.length },
      fix: {
        text: 'Make them what they were.',
        sql: [...lost, ...changed].flatMap(([, { statements }]) => statements.map(withoutEnd)),
        fixable: true,
      },
    }),
  ]
}

function indexes(context: DoctorContext, expected: ExpectedSchema, actual: readonly CatalogObject[]): Finding[] {
  const tables = namesOf(actual, 'table')
  const lost = missing(expected.indexes, actual, 'index').filter(([, { table }]) => tables.has(table))
  const ofHistory = lost.filter(([, { table }]) => table === history)
  const invalid = actual.filter(({ kind, is_valid }) => kind === 'index' && !is_valid).map(({ name }) => name)
  return [
    ...missingIndexes(
      'missing',
      lost.filter((index) => !ofHistory.includes(index)),
      true,
    ),
    ...missingIndexes(`missing on ${history}`, ofHistory, false),
    ...(invalid.length > 0 ? [invalidIndexes(context, expected, invalid)] : []),
  ]
}

/** It is partitioned, and such a table cannot have an index made while others write. */
const history = 'job_history'

function missingIndexes(
  subject: string,
  lost: readonly (readonly [string, { table: string; statement: string }])[],
  isConcurrent: boolean,
): Finding[] {
  if (lost.length === 0) return []
  return [
    finding({
      id: 'indexes-differ',
      severity: 'wrong',
      subject,
      text: `${theNamesAre(
        'index',
        lost.map(([name, { table }]) => `${name} on ${table}`),
      )} missing`,
      why: 'What it was for reads the whole table, and becomes slower with every row.',
      facts: { indexes: lost.map(([name]) => name).join(', ') },
      fix: {
        text: isConcurrent
          ? 'Make it again, while others go on working.'
          : 'Make it again. No job can end meanwhile: choose a quiet moment.',
        sql: lost.map(([, { statement }]) =>
          withoutEnd(isConcurrent ? statement.replace(/ index /, ' index concurrently ') : statement),
        ),
        fixable: isConcurrent,
      },
    }),
  ]
}

function invalidIndexes(context: DoctorContext, expected: ExpectedSchema, invalid: readonly string[]): Finding {
  // The name of what a making has left behind ends like this.
  const isLeft = (name: string) => /_cc(new|old)\d*$/.test(name) && !expected.indexes.has(name)
  return finding({
    id: 'indexes-differ',
    severity: 'wrong',
    subject: 'invalid',
    text: `${theNamesAre('index', invalid)} invalid: the making was interrupted`,
    why: 'Every write keeps it up to date, and no reader uses it.',
    facts: { indexes: invalid.join(', ') },
    fix: {
      text: 'Make it anew, while others go on working.',
      sql: invalid.map(
        (name) => `${isLeft(name) ? 'drop' : 'reindex'} index concurrently ${context.qualifiedName(name)}`,
      ),
      fixable: true,
    },
  })
}

/** Settings beyond ours are somebody's tuning, and none of our business; but without autovacuum none of it helps. */
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
    return [
      finding({
        id: 'storage-differs',
        severity: isOff ? 'risky' : 'note',
        subject: table,
        text: `Of the table ${table}, ${[...(isOff ? ['autovacuum is off'] : []), ...differences].join('; ')}`,
        why: 'These settings keep tables that change all the time small.',
        facts: { table, autovacuum: !isOff, changed: changed.map(([option]) => option).join(', ') },
        fix: {
          text: 'Set them to what the migrations have chosen.',
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
      }),
    ]
  })
}

function optionsOf(detail: string | null): Map<string, string> {
  return new Map((detail ?? '').split(',').flatMap((pair) => (pair ? [pair.split('=') as [string, string]] : [])))
}
