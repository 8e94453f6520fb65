import type { Documents, LineOf } from './documents.js'
import type { Settings } from './settings.js'
import { layoutFor, wrap } from './table.js'

/** Of a column that people do not get. */
export const onlyWhenPiped = null

/** What is told of one thing: the field, and its value. */
export type Fact = readonly [string, string]

/** One column of an answer with rows. */
export interface Column<Row> {
  readonly title: string
  /** What a program gets; dates as ISO 8601, null as nothing. */
  readonly value: (row: Row) => string | number | boolean | Date | null
  /** What people get, where that is different; null where they get no such column. */
  readonly shown?: ((row: Row) => string) | null
  readonly colour?: (row: Row) => Colour | undefined
}

export type Colour = 'red' | 'green' | 'yellow' | 'dim'
const codes = { red: 31, green: 32, yellow: 33, dim: 2 } as const

/**
 * The name of the command is a type argument without a useful default, so that a call without the name does not compile. The schema of
 * the command then describes what the command prints.
 */
type Command = keyof Documents

/** stdout carries data only: a table on a terminal, tab-separated where it is piped, JSON where that was asked for. */
export function printRows<Name extends Command = never>(
  settings: Settings,
  rows: readonly LineOf<NoInfer<Name>>[],
  columns: readonly Column<LineOf<NoInfer<Name>>>[],
): void {
  if (settings.flag('json')) write([JSON.stringify(rows, null, 2)])
  else if (settings.flag('jsonl')) write(rows.map((row) => JSON.stringify(row)))
  else if (process.stdout.isTTY) write(table(settings, rows, columns))
  else write(rows.map((row) => columns.map((column) => plain(column.value(row))).join('\t')))
}

export function printJson<Name extends Command = never>(document: Documents[NoInfer<Name>]): void {
  write([JSON.stringify(document, null, 2)])
}

/** An answer that is one document: the same in one line with `--jsonl`. Tells whether JSON was asked for at all. */
export function printDocument<Name extends Command = never>(
  settings: Settings,
  document: Documents[NoInfer<Name>],
): boolean {
  if (settings.flag('json')) printJson<Name>(document)
  else if (settings.flag('jsonl')) write([JSON.stringify(document)])
  else return false
  return true
}

export function write(lines: readonly string[]): void {
  if (lines.length > 0) process.stdout.write(`${lines.join('\n')}\n`)
}

export function paint(settings: Settings, text: string, colour: Colour | undefined): string {
  if (!colour || text === '' || settings.isNegated('color') || !process.stdout.isTTY || !process.stdout.hasColors())
    return text
  return `\x1b[${codes[colour]}m${text}\x1b[0m`
}

/** Names are anybody's text: what would move the cursor, or end a line or a field, is spelt out. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, (character) =>
    character === '\t'
      ? '\\t'
      : character === '\n'
        ? '\\n'
        : `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`,
  )
}

function plain(value: string | number | boolean | Date | null): string {
  if (value === null) return ''
  return value instanceof Date ? value.toISOString() : visible(String(value))
}

function table<Row>(settings: Settings, rows: readonly Row[], columns: readonly Column<Row>[]): string[] {
  if (rows.length === 0) return []
  const shown = columns.filter((column) => column.shown !== null)
  const cells = rows.map((row) => shown.map(({ shown, value }) => (shown ? visible(shown(row)) : plain(value(row)))))
  const titles = shown.map(({ title }) => title)
  const layOut = layoutFor([titles, ...cells], process.stdout.columns || 80)
  const lines = cells.map((line, at) =>
    layOut(line, (text, column) => paint(settings, text, shown[column]!.colour?.(rows[at]!))),
  )
  return [layOut(titles, (text) => paint(settings, text, 'dim')), ...lines]
}

/** Facts about one thing: aligned on a terminal, `field<tab>value` where piped. */
export function printFacts(settings: Settings, facts: readonly Fact[]): void {
  if (!process.stdout.isTTY) {
    write(facts.map(([field, value]) => `${field}\t${visible(value)}`))
    return
  }
  const width = Math.max(...facts.map(([field]) => field.length))
  const room = (process.stdout.columns || 80) - width - 2
  for (const [at, [field, value]] of facts.entries()) {
    const [first, ...rest] = wrap(visible(value), room)
    const title = field === facts[at - 1]?.[0] ? '' : field
    write([
      `${paint(settings, title.padEnd(width), 'dim')}  ${first}`,
      ...rest.map((line) => ' '.repeat(width + 2) + line),
    ])
  }
}

/** The namespace of each row, which people are shown where there are several. */
export function namespaceColumn<Row extends { readonly namespace: string | null }>(rows: readonly Row[]): Column<Row> {
  const areSeveral = new Set(rows.map(({ namespace }) => namespace)).size > 1
  return {
    title: 'NAMESPACE',
    value: ({ namespace }) => namespace,
    shown: areSeveral ? ({ namespace }) => namespace || '-' : null,
  }
}
