// What a panel of the overview is: columns, and for each row its cells and all that is known of it. Any table of the overview
// is made into one, whatever its rows are.
import { formatDuration } from '../../base/index.js'
import type { Overview } from '../../observe/index.js'
import { type Fact, visible } from '../output.js'

export type Style = 'bold' | 'dim' | 'reverse' | 'red' | 'yellow' | 'green'

/** A table of the overview, whatever its rows are made of. */
export interface Panel {
  readonly title: string
  readonly columns: readonly Heading[]
  rows(overview: Overview): readonly PanelRow[]
  /** How many there are, where more are than listed. */
  total(overview: Overview): number
  /** The command that lists all of them. */
  readonly listedBy: string
}

interface Heading {
  readonly title: string
  /** Numbers stand below each other by their last digits. */
  readonly isNumber: boolean
  /** Where there is no room the columns with the largest number go first; those with 0 stay. */
  readonly spare: number
  /** So wide at least, so that what changes all the time does not move its neighbours. */
  readonly least: number
}

export interface PanelRow {
  /** By which it is found again in the next overview. */
  readonly id: string
  readonly cells: readonly Cell[]
  /** All that is known of it, and the command that tells more, for Holdfast in this schema. */
  facts(schema: string): readonly Fact[]
}

export interface Cell {
  readonly text: string
  /** By what it is sorted: the larger first, but texts as in a dictionary. Null goes last. */
  readonly order: number | string | null
  readonly style: Style | undefined
}

export interface Column<Row> {
  title: string
  text: (row: Row) => string
  order?: (row: Row) => number | string | null
  style?: (row: Row) => Style | false | undefined
  isNumber?: boolean
  spare?: number
  least?: number
}

interface Definition<Row> {
  title: string
  columns: Column<Row>[]
  rows: (overview: Overview) => readonly Row[]
  total?: (overview: Overview) => number
  id: (row: Row) => string
  facts: (row: Row, schema: string) => [string, string | number | null][]
  listedBy: string
}

/** Makes a panel of a table. */
export function definePanel<Row>({ columns, rows, id, facts, total, ...same }: Definition<Row>): Panel {
  const rowOf = (row: Row): PanelRow => ({
    id: id(row),
    cells: columns.map(({ text, order, style }) => ({
      text: visible(text(row)),
      order: order ? order(row) : text(row),
      style: style?.(row) || undefined,
    })),
    facts: (schema) =>
      facts(row, schema).map(([field, value]) => [field, value === null ? '-' : visible(String(value))] as const),
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

/** A column of numbers. */
export function count<Row>(title: string, of: (row: Row) => number, more: Partial<Column<Row>> = {}): Column<Row> {
  return { title, text: (row) => String(of(row)), order: of, isNumber: true, ...more }
}

/** A column of ages, or of times to come. */
export function time<Row>(
  title: string,
  of: (row: Row) => number | null,
  more: Partial<Column<Row>> = {},
): Column<Row> {
  return { title, text: (row) => age(of(row)), order: of, isNumber: true, least: 6, ...more }
}

/** A time for a screen: whole seconds, because more would only flicker. */
export function age(ms: number | null): string {
  if (ms === null) return ''
  return ms < 1_000 ? '<1s' : formatDuration(Math.floor(ms / 1_000) * 1_000)
}

/** A time that something took. */
export function exactDuration(ms: number | null): string {
  return ms === null ? '' : formatDuration(ms)
}
