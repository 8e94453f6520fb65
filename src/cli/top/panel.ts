import { formatDuration } from '../../base/index.js'
import type { Overview } from '../../observe/index.js'
import { type Fact, visible } from '../output.js'

export type Style = 'bold' | 'dim' | 'reverse' | 'red' | 'yellow' | 'green'

/** Text in one style. */
export interface Span {
  readonly text: string
  readonly style?: Style | undefined
}

/** Line of the screen. */
export type Line = readonly Span[]

/** One of the overview's tables, independent of its rows' type. */
export interface Panel {
  readonly title: string
  readonly columns: readonly Heading[]
  rows(overview: Overview): readonly PanelRow[]
  /** Total number of rows, which may exceed the number of listed rows. */
  total(overview: Overview): number
  /** Command that lists all rows. */
  readonly listedBy: string
}

type Heading = Readonly<Required<Pick<Column<never>, 'title' | 'isNumber' | 'spare' | 'least'>>>

export interface PanelRow {
  /** ID that identifies the same row in the next overview. */
  readonly id: string
  readonly cells: readonly Cell[]
  /** Returns the row's details, and a command for more information. */
  facts(schema: string): readonly Fact[]
}

export interface Cell {
  readonly text: string
  /** A cell's sort key. Larger numbers come first, strings are in alphabetical order, and null comes last. */
  readonly order: number | string | null
  readonly style: Style | undefined
}

export interface Column<Row> {
  title: string
  /** The column's label in a row's details. Default: the title in lower case. */
  label?: string
  text: (row: Row) => string
  order?: (row: Row) => number | string | null
  style?: (row: Row) => Style | false | undefined
  /** Whether the column contains numbers, which are aligned to the right. */
  isNumber?: boolean
  /** Order in which columns are hidden if space is short, the largest number first. A column with 0 stays. */
  spare?: number
  /** Minimum width of the column, so that changing values do not move the next columns. */
  least?: number
}

interface Definition<Row> {
  title: string
  columns: Column<Row>[]
  rows: (overview: Overview) => readonly Row[]
  total?: (overview: Overview) => number
  id: (row: Row) => string
  /** Details in addition to the columns. A detail with the same label as a column replaces that column. */
  details?: (row: Row, schema: string) => [string, string | number | null | undefined][]
  listedBy: string
}

export function definePanel<Row>({ columns, rows, id, details, total, ...same }: Definition<Row>): Panel {
  const rowOf = (row: Row): PanelRow => ({
    id: id(row),
    cells: columns.map(({ text, order, style }) => ({
      text: visible(text(row)),
      order: order ? order(row) : text(row),
      style: style?.(row) || undefined,
    })),
    facts: (schema) => {
      const fromColumns = columns.map(({ title, label = title.toLowerCase(), text }) => [label, text(row)] as const)
      const facts = new Map([...fromColumns, ...(details?.(row, schema) ?? [])])
      return [...facts].map(([label, value]) => [label, visible(String(value ?? '')) || '-'])
    },
  })
  return {
    ...same,
    columns: columns.map(({ title, isNumber = false, spare = 0, least = 0 }) => ({
      title,
      isNumber,
      spare,
      least: Math.max(least, title.length),
    })),
    rows: (overview) => rows(overview).map(rowOf),
    total: total ?? ((overview) => rows(overview).length),
  }
}

export function count<Row>(title: string, of: (row: Row) => number, more: Partial<Column<Row>> = {}): Column<Row> {
  return { title, text: (row) => String(of(row)), order: of, isNumber: true, ...more }
}

/** Returns a column of durations, such as an age or the time until an event. */
export function time<Row>(
  title: string,
  of: (row: Row) => number | null,
  more: Partial<Column<Row>> = {},
): Column<Row> {
  return { title, text: (row) => age(of(row)), order: of, isNumber: true, least: 6, ...more }
}

/** Formats a duration in whole seconds, because smaller units would flicker. */
export function age(ms: number | null): string {
  if (ms === null) return ''
  return ms < 1_000 ? '<1s' : formatDuration(Math.floor(ms / 1_000) * 1_000)
}

export function exactDuration(ms: number | null): string {
  return ms === null ? '' : formatDuration(ms)
}
