import type { Documents, LineOf } from './documents.js'
import type { Settings } from './settings.js'
import { layoutFor, wrap } from './table.js'

/** Value of `shown` for a column that is hidden on terminals. */
export const onlyWhenPiped = null

/** A field and its value. */
export type Fact = readonly [string, string]

export interface Column<Row> {
  readonly title: string
  /** Value for programs. A date is printed as ISO 8601, and null as an empty field. */
  readonly value: (row: Row) => Value
  /** Text for a terminal, if it differs from the value. Null hides the column on terminals. */
  readonly shown?: ((row: Row) => string) | null
  readonly colour?: (row: Row) => Colour | undefined
}

export type Colour = 'red' | 'green' | 'yellow' | 'dim'
const codes = { red: 31, green: 32, yellow: 33, dim: 2 } as const

/** Name of a command. A call without this type argument, or with a wrong document, does not compile. */
type Command = keyof Documents

type Value = string | number | boolean | Date | null
type ValueKey<Row> = { [Key in keyof Row]: Row[Key] extends Value ? Key : never }[keyof Row]

/** Returns columns that show the row's properties unchanged. Each title is mapped to a property. */
export function plainColumns<Row>(columns: Readonly<Record<string, ValueKey<Row>>>): Column<Row>[] {
  return Object.entries<ValueKey<Row>>(columns).map(([title, key]) => ({ title, value: (row) => row[key] as Value }))
}

/** Returns plain columns that are printed only when the output is piped. */
export function pipedColumns<Row>(columns: Readonly<Record<string, ValueKey<Row>>>): Column<Row>[] {
  return plainColumns<Row>(columns).map((column) => ({ ...column, shown: onlyWhenPiped }))
}

/** Formats a count with its noun, such as `1 job` or `2 jobs`. */
export function countText(count: number, thing: string): string {
  return `${count.toLocaleString('en')} ${thing}${count === 1 ? '' : 's'}`
}

/** Prints rows to stdout: as a table on a terminal, as tab-separated fields when the output is piped, or as JSON. */
export function printRows<Name extends Command = never>(
  settings: Settings,
  rows: readonly LineOf<NoInfer<Name>>[],
  columns: readonly Column<LineOf<NoInfer<Name>>>[],
): void {
  if (settings.flag('json')) write([JSON.stringify(rows, null, 2)])
  else if (settings.flag('jsonl')) write(rows.map((row) => JSON.stringify(row)))
  else if (process.stdout.isTTY) {
    const fitting = settings.flag('all') ? rows : rows.slice(0, rowsOnScreen(rows.length))
    write(table(settings, fitting, columns))
    const rest = rows.length - fitting.length
    if (rest > 0) process.stderr.write(`${countText(rest, 'more row')}. Add --all to print all rows.\n`)
  } else {
    const lines = rows.map((row) => columns.map(({ value }) => plain(value(row))))
    const header = settings.flag('header') ? [columns.map(({ title }) => title)] : []
    write([...header, ...lines].map((fields) => fields.join('\t')))
  }
}

/** Number of screen lines that a list leaves free for the header, the messages after the list, and the prompt. */
const spareLines = 5

/**
 * Returns the number of a list's rows that fit on the screen, so that the first and most important rows stay visible.
 */
function rowsOnScreen(rows: number): number {
  const fit = Math.max(1, (process.stdout.rows || Number.POSITIVE_INFINITY) - spareLines)
  return rows <= fit ? rows : fit
}

/**
 * Reverses blocks of lines if they do not fit on the screen. The first block, which is the worst, then stays visible
 * directly above the prompt.
 */
export function worstInView<Block extends readonly string[]>(blocks: readonly Block[]): readonly Block[] {
  const lines = blocks.reduce((sum, block) => sum + block.length, 0)
  return process.stdout.isTTY && lines > process.stdout.rows - spareLines ? blocks.toReversed() : blocks
}

export function printJson<Name extends Command = never>(document: Documents[NoInfer<Name>]): void {
  write([JSON.stringify(document, null, 2)])
}

/** Prints one document if `--json` or `--jsonl` was given. Otherwise returns false. */
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

const escapes: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n' }

/**
 * Escapes characters in a name that would move the cursor, end the line or end the field, or change the direction of
 * the text.
 */
export function visible(text: string): string {
  return text.replace(
    /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (character) => escapes[character] ?? `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`,
  )
}

function plain(value: Value): string {
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

/** Prints facts: in aligned columns on a terminal, or as `field<tab>value` when the output is piped. */
export function printFacts(settings: Settings, given: readonly Fact[]): void {
  // A field can contain a name, such as the name of a step.
  const facts = given.map(([field, value]): Fact => [visible(field), visible(value)])
  if (!process.stdout.isTTY) {
    write(facts.map((fact) => fact.join('\t')))
    return
  }
  const width = facts.reduce((widest, [field]) => Math.max(widest, field.length), 0)
  const room = (process.stdout.columns || 80) - width - 2
  for (const [at, [field, value]] of facts.entries()) {
    const [first, ...rest] = wrap(value, room)
    const title = field === facts[at - 1]?.[0] ? '' : field
    write([
      `${paint(settings, title.padEnd(width), 'dim')}  ${first}`,
      ...rest.map((line) => ' '.repeat(width + 2) + line),
    ])
  }
}

/**
 * Returns the column for the namespace. On a terminal, this column appears only if the rows come from more than one
 * namespace.
 */
export function namespaceColumn<Row extends { readonly namespace: string | null }>(rows: readonly Row[]): Column<Row> {
  const areSeveral = new Set(rows.map(({ namespace }) => namespace)).size > 1
  return {
    title: 'NAMESPACE',
    value: ({ namespace }) => namespace,
    shown: areSeveral ? ({ namespace }) => namespace || '-' : null,
  }
}
