import type { Reader, Statement } from '../postgres/index.js'

/** Converts milliseconds since 1970 to a date. */
export function dateOf(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}

/** Rounds an age or a remaining time. Returns 0 for a negative value, which is possible if two clocks are involved. */
export function msOf(ms: number | null): number | null {
  return ms === null ? null : Math.max(0, Math.round(ms))
}

/** Row as SQL returns it. Each date is a number of milliseconds since 1970. */
export type RawRow<Row> = {
  readonly [Name in keyof Row]: Row[Name] extends Date
    ? number
    : Row[Name] extends Date | null
      ? number | null
      : Row[Name]
}

type DateOf<Row> = { [Name in keyof Row]: Row[Name] extends Date | null ? Name : never }[keyof Row]

/** Converts the columns `dates` to dates, and rounds the columns whose names end with `Ms`. */
export function readRow<Row extends object>(raw: RawRow<Row>, ...dates: readonly DateOf<Row>[]): Row {
  const isDate = new Set<unknown>(dates)
  const read = Object.entries(raw).map(([name, value]) => {
    if (typeof value !== 'number') return [name, value]
    if (isDate.has(name)) return [name, new Date(value)]
    return [name, name.endsWith('Ms') ? msOf(value) : value]
  })
  return Object.fromEntries(read) as Row
}

/**
 * Runs a statement that returns one JSON document in the `answer` column. Returns undefined if the statement returns no
 * row.
 */
export async function readDocument<Document>(
  reader: Reader,
  { text }: Statement,
  values: readonly unknown[],
): Promise<Document | undefined> {
  const [row] = await reader.read<{ answer: Document }>(text, values)
  return row?.answer
}
