import { type Blueprint, blueprintOf } from './blueprint.js'
import { type Finding, finding, listed, theseAre } from './finding.js'
import type { Check, Patient } from './patient.js'

interface Thing {
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
  async look(patient): Promise<Finding[]> {
    const blueprint = blueprintOf(patient.schema, patient.version)
    const there = await patient.ask<Thing>('catalog', [patient.quotedSchema])
    // Functions of another version of Holdfast may differ. Those that are pending are a finding already.
    const functionFindings = patient.hasOurFunctions ? functions(blueprint, there) : []
    return [
      ...tables(blueprint, there),
      ...columns(patient, blueprint, there),
      ...sequences(blueprint, there),
      ...functionFindings,
      ...indexes(patient, blueprint, there),
      ...storage(patient, blueprint, there),
    ]
  },
}

function missing<Value>(
  wanted: ReadonlyMap<string, Value>,
  there: readonly Thing[],
  kind: Thing['kind'],
): [string, Value][] {
  const names = namesOf(there, kind)
  return [...wanted].filter(([name]) => !names.has(name))
}

function namesOf(there: readonly Thing[], kind: Thing['kind']): Set<string> {
  return new Set(there.filter((thing) => thing.kind === kind).map(({ name }) => name))
}

const withoutEnd = (statement: string) => statement.replace(/;$/, '')

function tables(blueprint: Blueprint, there: readonly Thing[]): Finding[] {
  const lost = missing(blueprint.tables, there, 'table')
  if (lost.length === 0) return []
  const names = lost.map(([name]) => name)
  const itsIndexes = [...blueprint.indexes.values()].filter(({ table }) => names.includes(table))
  return [
    finding({
      id: 'tables-missing',
      severity: 'wrong',
      seen: `${theseAre('table', names)} not there any more`,
      why: 'What was in them is lost, and whoever needs them fails.',
      facts: { tables: names.join(', ') },
      mend: {
        what: 'Bring them back from a backup; or make them anew, empty, and grant the rights on them that the others have.',
        sql: [...lost.flatMap(([, { statements }]) => statements), ...itsIndexes.map(({ statement }) => statement)].map(
          withoutEnd,
        ),
      },
    }),
  ]
}

function columns(patient: Patient, blueprint: Blueprint, there: readonly Thing[]): Finding[] {
  const known = new Set(there.flatMap(({ kind, of, name }) => (kind === 'column' ? [`${of}.${name}`] : [])))
  const lost = [...blueprint.tables]
    .filter(([table]) => namesOf(there, 'table').has(table))
    .flatMap(([table, { columns }]) => [...columns].map(([column, definition]) => ({ table, column, definition })))
    .filter(({ table, column }) => !known.has(`${table}.${column}`))
  if (lost.length === 0) return []
  const names = lost.map(({ table, column }) => `${table}.${column}`)
  return [
    finding({
      id: 'columns-missing',
      severity: 'wrong',
      seen: `${theseAre('column', names)} not there`,
      why: 'Whoever needs them fails.',
      facts: { columns: names.join(', ') },
      mend: {
        what: 'Bring them back from a backup; or add them, where the table is empty or the column has a default.',
        sql: lost.map(
          ({ table, column, definition }) => `alter table ${patient.named(table)} add column ${column} ${definition}`,
        ),
      },
    }),
  ]
}

function sequences(blueprint: Blueprint, there: readonly Thing[]): Finding[] {
  const lost = missing(blueprint.sequences, there, 'sequence')
  if (lost.length === 0) return []
  const names = lost.map(([name]) => name)
  return [
    finding({
      id: 'sequences-missing',
      severity: 'wrong',
      seen: `${theseAre('sequence', names)} not there any more`,
      why: 'Nothing can be granted or enqueued. And numbers that were given out must not come again: later fences are larger.',
      facts: { sequences: names.join(', ') },
      mend: {
        what: 'Make them anew, and set each far above the largest number that it has given out: fence above all in guarded, lease and job_history, job_number above all ids.',
        sql: lost.map(([, statement]) => withoutEnd(statement)),
      },
    }),
  ]
}

function functions(blueprint: Blueprint, there: readonly Thing[]): Finding[] {
  const lost = missing(blueprint.functions, there, 'function')
  const bodies = new Map(there.flatMap(({ kind, name, detail }) => (kind === 'function' ? [[name, detail]] : [])))
  const changed = [...blueprint.functions].filter(([name, { body }]) => bodies.has(name) && bodies.get(name) !== body)
  if (lost.length + changed.length === 0) return []
  const say = (list: [string, unknown][], what: string) =>
    list.length === 0 ? [] : [`${listed(list.map(([name]) => name))} ${list.length === 1 ? 'is' : 'are'} ${what}`]
  return [
    finding({
      id: 'functions-differ',
      severity: 'wrong',
      seen: `Of the functions, ${[...say(lost, 'missing'), ...say(changed, 'not what was applied')].join('; ')}`,
      why: 'The promises of Holdfast are kept inside these functions.',
      facts: { missing: lost.length, changed: changed.length },
      mend: {
        what: 'Make them what they were.',
        sql: [...lost, ...changed].flatMap(([, { statements }]) => statements.map(withoutEnd)),
        fixable: true,
      },
    }),
  ]
}

function indexes(patient: Patient, blueprint: Blueprint, there: readonly Thing[]): Finding[] {
  const tables = namesOf(there, 'table')
  const lost = missing(blueprint.indexes, there, 'index').filter(([, { table }]) => tables.has(table))
  const ofHistory = lost.filter(([, { table }]) => table === history)
  const invalid = there.filter(({ kind, is_valid }) => kind === 'index' && !is_valid).map(({ name }) => name)
  return [
    ...missingIndexes(
      'missing',
      lost.filter((index) => !ofHistory.includes(index)),
      true,
    ),
    ...missingIndexes(`missing on ${history}`, ofHistory, false),
    ...(invalid.length > 0 ? [invalidIndexes(patient, blueprint, invalid)] : []),
  ]
}

/** It is partitioned, and such a table cannot have an index made while others write. */
const history = 'job_history'

function missingIndexes(
  subject: string,
  lost: readonly (readonly [string, { table: string; statement: string }])[],
  isCalm: boolean,
): Finding[] {
  if (lost.length === 0) return []
  return [
    finding({
      id: 'indexes-differ',
      severity: 'wrong',
      subject,
      seen: `${theseAre(
        'index',
        lost.map(([name, { table }]) => `${name} on ${table}`),
      )} missing`,
      why: 'What it was for reads the whole table, and becomes slower with every row.',
      facts: { indexes: lost.map(([name]) => name).join(', ') },
      mend: {
        what: isCalm
          ? 'Make it again, while others go on working.'
          : 'Make it again. No job can end meanwhile: choose a quiet moment.',
        sql: lost.map(([, { statement }]) =>
          withoutEnd(isCalm ? statement.replace(/ index /, ' index concurrently ') : statement),
        ),
        fixable: isCalm,
      },
    }),
  ]
}

function invalidIndexes(patient: Patient, blueprint: Blueprint, invalid: readonly string[]): Finding {
  // The name of what a making has left behind ends like this.
  const isLeft = (name: string) => /_cc(new|old)\d*$/.test(name) && !blueprint.indexes.has(name)
  return finding({
    id: 'indexes-differ',
    severity: 'wrong',
    subject: 'invalid',
    seen: `${theseAre('index', invalid)} invalid: the making was interrupted`,
    why: 'Every write keeps it up to date, and no reader uses it.',
    facts: { indexes: invalid.join(', ') },
    mend: {
      what: 'Make it anew, while others go on working.',
      sql: invalid.map((name) => `${isLeft(name) ? 'drop' : 'reindex'} index concurrently ${patient.named(name)}`),
      fixable: true,
    },
  })
}

/** Settings beyond ours are somebody's tuning, and none of our business; but without autovacuum none of it helps. */
function storage(patient: Patient, blueprint: Blueprint, there: readonly Thing[]): Finding[] {
  const of = new Map(there.flatMap(({ kind, name, detail }) => (kind === 'table' ? [[name, optionsOf(detail)]] : [])))
  return [...blueprint.tables].flatMap(([table, { options }]) => {
    const now = of.get(table)
    if (!now) return []
    const changed = [...options].filter(([option, value]) => now.get(option) !== value)
    const isOff = ['false', 'off', '0', 'no'].includes(now.get('autovacuum_enabled') ?? '')
    if (changed.length === 0 && !isOff) return []
    const said = changed.map(
      ([option, value]) => `${option} is ${now.get(option) ?? 'the default'} instead of ${value}`,
    )
    return [
      finding({
        id: 'storage-differs',
        severity: isOff ? 'risky' : 'note',
        subject: table,
        seen: `Of the table ${table}, ${[...(isOff ? ['autovacuum is off'] : []), ...said].join('; ')}`,
        why: 'These settings keep tables that change all the time small.',
        facts: { table, autovacuum: !isOff, changed: changed.map(([option]) => option).join(', ') },
        mend: {
          what: 'Set them to what the migrations have chosen.',
          sql: [
            ...(changed.length === 0
              ? []
              : [`alter table ${patient.named(table)} set (${changed.map((pair) => pair.join(' = ')).join(', ')})`]),
            ...(isOff ? [`alter table ${patient.named(table)} reset (autovacuum_enabled)`] : []),
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
